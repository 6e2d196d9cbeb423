"""A page: one HTML file that needs no network, of tables, figures and a list of nodes to look into."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nlgnn.datasets.fetch import cache_folder
from nlgnn.errors import NlgnnError
from nlgnn.experiments.section import Section
from nlgnn.report.columns import Columns, Words
from nlgnn.training.run import write_whole

ASSETS = Path(__file__).parent / "assets"


class Figure(NamedTuple):
    """A chart and the tables that it is drawn from, whose names its data go by; the first is shown under it.

    `renderer`: canvas for many thousands of marks, svg for all else.
    """

    title: str
    chart: Any
    tables: Mapping[str, Columns]
    caption: str
    text: str = ""
    renderer: Literal["svg", "canvas"] = "svg"
    half: bool = False  # whether two stand side by side where there is room


class Headline(NamedTuple):
    """The answer in a number, and sentences about it."""

    figure: str
    what: str
    sentences: Sequence[str]


class Command(NamedTuple):
    """A line to be copied."""

    title: str
    words: str


class NodeList(NamedTuple):
    """Nodes that a reader can look for and look into; page.js says how `data` is read."""

    title: str
    strips: Figure
    data: Mapping[str, Any]
    caption: str


Part = Section | Figure | Headline | Command | NodeList


def page(title: str, parts: Sequence[Part]) -> str:
    """The HTML of a page."""
    with_strips = [part.strips if isinstance(part, NodeList) else part for part in parts]
    figures = [part for part in with_strips if isinstance(part, Figure)]
    words = Words()
    payload = {
        "figures": [
            {
                "spec": figure.chart.to_dict(validate=False),  # which takes longer than all else; tests do
                "tables": {name: words.encode(columns) for name, columns in figure.tables.items()},
                "renderer": figure.renderer,
            }
            for figure in figures
        ],
        "nodes": next((dict(part.data) for part in parts if isinstance(part, NodeList)), None),
        "words": [some.tolist() for some in words.lists],
    }
    text: str = _template().render(
        title=title,
        parts=[(type(part).__name__, part) for part in parts],
        style=(ASSETS / "style.css").read_text(encoding="utf-8"),
        script=(ASSETS / "page.js").read_text(encoding="utf-8"),
        vega=_vega(),
        payload=in_script(payload),
    )
    return text


def write_page(path: Path, title: str, parts: Sequence[Part]) -> None:
    text = page(title, parts)
    try:
        write_whole(path, lambda half_written: half_written.write_text(text, "utf-8", "replace"))
    except OSError as error:
        raise NlgnnError(
            f"{path} cannot be written: {error.strerror or error}.", "Make room, or name another file (--out)."
        ) from error


def in_script(value: Any) -> str:
    """JSON that no text in it can end the script element of."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def _vega() -> str:
    """Vega, Vega-Lite and vega-embed (BSD licence), which put themselves on `window`.

    vl-convert takes seconds to put them together, so that they are kept where downloads are.
    """
    import vl_convert

    kept = cache_folder() / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError):
        return kept.read_text(encoding="utf-8")
    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    if "</script" in bundle:
        raise NlgnnError("this version of vl-convert cannot be put into a page.", "Install the version pinned.")
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, lambda half_written: half_written.write_text(bundle, encoding="utf-8"))
    return bundle


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")
