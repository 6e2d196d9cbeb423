"""Sphinx extension for links from the documentation to other files of the repository, and to the example reports.

On the site, such a link leads to the page that includes the file. Where there is none, its text remains. The example
reports are opened as pages of their own, which `html_extra_path` copies next to the start page.
"""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

PAGES = {"CHANGELOG.md": "/changelog.md", "benchmarks/results/README.md": "/results/speed.md"}
LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(((?:\.\./)+[^()\s]+)\)")
EXAMPLE = re.compile(r"\[([^\[\]]+)\]\((?:\.\./)?examples/([\w-]+\.html)\)")


def replace_links(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the links of a page that leave the folder of the documentation."""
    docs = Path(app.srcdir).resolve()
    folder = docs.joinpath(docname).parent

    def replaced(link: re.Match[str]) -> str:
        text, target = link.groups()
        path = (folder / target).resolve()
        if path.is_relative_to(docs):
            return link[0]
        page = PAGES.get(path.relative_to(docs.parent).as_posix())
        return f"[{text}]({page})" if page else text

    def opened(link: re.Match[str]) -> str:
        text, name = link.groups()
        return f'<a href="{os.path.relpath(docs / name, folder)}">{text}</a>'

    source[0] = LINK.sub(replaced, EXAMPLE.sub(opened, source[0]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", replace_links)
    return {"parallel_read_safe": True}
