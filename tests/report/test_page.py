"""A page: one file, in which text of users stays text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import altair
import numpy as np
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from each_of import each_of
from nlgnn.errors import NlgnnError
from nlgnn.report import page as page_module
from nlgnn.report.page import Command, Figure, Headline, NodeList, in_script, page, write_page
from nlgnn.report.table import Section

EVIL = "</script><script>alert('1')</script><!--<img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    """Tags, their attributes, and the text in each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def figure(title: str = "Points", name: str = "a", **options: Any) -> Figure:
    chart = altair.Chart(altair.NamedData("rows")).mark_point().encode(x="value:Q", y="name:N")
    return Figure(title, chart, {"rows": {"name": [name, "b"], "value": np.array([1.5, np.nan])}}, "Drawn.", **options)


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_in_a_script_comes_back(value: object) -> None:
    assert json.loads(in_script(value)) == value


@each_of("text", ["</script>", "<!--", "<script", "</SCRIPT >", "\u2028\u2029", "]]>", "\0", '"\\', "🦊"])
def test_nothing_ends_a_script(text: str) -> None:
    assert "<" not in in_script({text: [text]})
    assert json.loads(in_script([text])) == [text]


def test_what_is_no_number_is_refused() -> None:
    """A browser could not read it."""
    with pytest.raises(ValueError, match="JSON"):
        in_script({"value": float("nan")})


def test_all_kinds_of_parts() -> None:
    parts = [
        Headline("80.0 %", "test accuracy", ["Ahead.", "Diagnosis."]),
        Section("Table", [{"model": "a", "test": "80"}, {"model": "b", "test": "70"}], "How.", "One.\n\nTwo."),
        Section("", [], "", "Words alone."),
        figure(text="Above it."),
        Command("Again", "nlgnn train texas"),
        NodeList("Nodes", figure("Strips", renderer="canvas"), {"length": 2}, "Why."),
    ]
    text = page("Title", parts)
    tags = Tags(text)
    for tag, words in {
        "h1": "Title",
        "title": "Title",
        "h2": "Table",
        "th": "model",
        "td": "70",
        "figcaption": "Drawn.",
        "code": "nlgnn train texas",
        "p": "80.0 %",
    }.items():
        assert words in tags.texts[tag], tag
    for words in ("Ahead.", "Diagnosis.", "How.", "One.", "Two.", "Words alone.", "Above it.", "Why."):
        assert words in tags.texts["p"]
    assert (tags.count("figure"), tags.count("table"), tags.count("script")) == (2, 1, 3)
    assert sum("data-figure" in attributes for _, attributes in tags.tags) == 2
    payload = json.loads(tags.texts["script"][0])
    assert [drawn["renderer"] for drawn in payload["figures"]] == ["svg", "canvas"]
    assert payload["nodes"] == {"length": 2}
    assert payload["words"] == [["a", "b"]]


def test_text_of_users_is_text_everywhere() -> None:
    parts = [
        Headline(EVIL, EVIL, [EVIL]),
        Section(EVIL, [{EVIL: EVIL}], EVIL, EVIL),
        figure(EVIL, name=EVIL, text=EVIL),
        Command(EVIL, EVIL),
        NodeList(EVIL, figure(EVIL), {"classes": [EVIL]}, EVIL),
    ]
    plain, evil = Tags(page("Title", [part for part in parts if isinstance(part, Figure)])), Tags(page(EVIL, parts))
    assert evil.count("script") == plain.count("script") == 3
    assert evil.count("img") == 0
    assert not any(name.startswith("on") for _, attributes in evil.tags for name in attributes)
    for tag in ("h1", "h2", "p", "td", "th", "code"):
        assert EVIL in evil.texts[tag]
    payload = json.loads(evil.texts["script"][0])
    assert payload["nodes"]["classes"] == [EVIL]
    assert payload["words"][0] == [EVIL, "b"]


def test_nothing_is_fetched() -> None:
    tags = Tags(page("Title", [figure()]))
    assert not {"link", "img", "iframe"} & {tag for tag, _ in tags.tags}
    assert not any({"src", "href"} & attributes.keys() for _, attributes in tags.tags)
    policy = next(
        str(found["content"]) for tag, found in tags.tags if found.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy


@pytest.fixture
def fresh_vega(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NLGNN_CACHE", str(tmp_path / "cache"))
    page_module._vega.cache_clear()
    yield
    page_module._vega.cache_clear()


def test_vega_is_kept_and_taken_from_there(fresh_vega: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda: "bundle")
    assert "<script>bundle</script>" in page("Title", [figure()])
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_text("from there")
    page_module._vega.cache_clear()
    assert "<script>from there</script>" in page("Title", [figure()])


def test_a_bundle_that_would_end_its_script_is_refused(fresh_vega: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda: "'</script>'")
    with pytest.raises(NlgnnError, match="cannot be put into a page"):
        page("Title", [figure()])


def test_written_whole(tmp_path: Path) -> None:
    write_page(tmp_path / "report.html", "Title", [Section("Words", [], "", "lone \ud800 half of a pair")])
    assert re.search("lone .* half", (tmp_path / "report.html").read_text("utf-8"))
    with pytest.raises(NlgnnError, match=r"report\.html cannot be written: No such file"):
        write_page(tmp_path / "none" / "report.html", "Title", [])
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
