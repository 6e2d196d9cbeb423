"""Tests that relative links in the README and the documentation point to existing files and headings."""

import re
from pathlib import Path

from each_of import each_of

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)


def links(text: str) -> list[str]:
    """Return the relative links of a Markdown text, without those in code blocks."""
    return [link for link in LINK.findall(FENCE.sub("", text)) if not re.match(r"[a-z]+:", link)]


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub makes of the headings of a Markdown text."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(FENCE.sub("", text)))
    return {heading.strip().replace(" ", "-") for heading in plain}


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page that point nowhere."""
    broken = []
    for link in links(page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            broken.append(link)
    return broken


@each_of("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_are_valid(page: Path) -> None:
    assert broken_links(page) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# `A` heading, long\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#a-heading-long) [b](missing.md) ![c](picture.svg)\n[d](#nowhere) [e](https://example.org)\n"
        "```shell\n[f](ignored.md)\n```\n"
    )
    assert broken_links(page) == ["missing.md", "picture.svg", "#nowhere"]
