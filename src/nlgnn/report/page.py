"""The one HTML writer: a file of tables, figures and nodes to look into that needs no network."""

from __future__ import annotations

import json
import tomllib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlgnn.datasets.download import cache_folder
from nlgnn.errors import NlgnnError
from nlgnn.files import write_text, writing
from nlgnn.report.table import Section

ASSETS = Path(__file__).parent / "assets"

Column = NDArray[Any] | Sequence[str]
Columns = Mapping[str, Column]


class Figure(NamedTuple):
    """A chart and its data.

    Args:
        title: The heading.
        chart: An Altair chart that reads named data.
        tables: The data by name. The first table is shown below the chart and saved as CSV.
        caption: How the figures were obtained.
        text: Paragraphs above the chart.
        renderer: `canvas` draws many thousands of marks, `svg` all else.
        half: If true, two figures share a row where there is room.
    """

    title: str
    chart: Any
    tables: Mapping[str, Columns]
    caption: str
    text: str = ""
    renderer: Literal["svg", "canvas"] = "svg"
    half: bool = False


class Headline(NamedTuple):
    """The main result in large type, with what it measures and sentences about it."""

    figure: str
    what: str
    sentences: Sequence[str]


class Command(NamedTuple):
    """A command to copy."""

    title: str
    words: str


class NodeList(NamedTuple):
    """Nodes that can be searched and looked into. `page.js` defines how `data` is read."""

    title: str
    strips: Figure
    data: Mapping[str, Any]
    caption: str


Part = Section | Figure | Headline | Command | NodeList


def write_page(path: Path, title: str, parts: Sequence[Part]) -> None:
    """Write an HTML page.

    Args:
        path: The file. A file that exists is replaced once the new one is complete.
        title: The heading of the page.
        parts: What the page shows, from top to bottom. `sections()` of a comparison or a diagnosis returns such parts.

    Raises:
        NlgnnError: The file cannot be written.
    """
    with writing(path, "Free some space, or name another file (--out)."):
        write_text(path, page(title, parts))


def page(title: str, parts: Sequence[Part]) -> str:
    """Return the HTML of a page. Vega is included only where there are figures, scripts only where they are used."""
    with_strips = [part.strips if isinstance(part, NodeList) else part for part in parts]
    figures = [part for part in with_strips if isinstance(part, Figure)]
    words = Words()
    payload = {
        "figures": [
            {
                "spec": figure.chart.to_dict(validate=False),  # validation takes longer than all else; tests do it
                "tables": {name: words.encode(columns) for name, columns in figure.tables.items()},
                "renderer": figure.renderer,
            }
            for figure in figures
        ],
        "nodes": next((dict(part.data) for part in parts if isinstance(part, NodeList)), None),
        "words": [some.tolist() for some in words.lists],
    }
    script = "" if all(isinstance(part, Section) for part in parts) else (ASSETS / "page.js").read_text("utf-8")
    vega = _vega() if figures else ""
    text: str = _template().render(
        title=title,
        parts=[(type(part).__name__, part) for part in parts],
        style=(ASSETS / "style.css").read_text(encoding="utf-8"),
        script=script,
        vega=vega,
        allowed_scripts=" ".join(map(hash_of_script, filter(None, (vega, script)))) or "'none'",
        payload=in_script(payload),
    )
    return text


def caption(name: str, **values: object) -> str:
    """Return a caption of `captions.toml` with values filled in."""
    return _captions()[name].format(**values)


@cache
def _captions() -> dict[str, str]:
    return tomllib.loads((ASSETS / "captions.toml").read_text(encoding="utf-8"))


def hash_of_script(text: str) -> str:
    """Return the source expression by which a content security policy allows one script and no other."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def in_script(value: Any) -> str:
    """Return JSON that cannot close the script element that holds it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    """Turn rows with equal keys into columns. A column is text if its first value is; None becomes not-a-number."""
    first: Mapping[str, Any] = rows[0] if rows else {}
    return {
        name: [str(row[name]) for row in rows]
        if isinstance(value, str)
        else np.array([np.nan if row[name] is None else row[name] for row in rows])
        for name, value in first.items()
    }


class Words:
    """The lists of distinct words of a page. Text columns are stored as numbers into one of them.

    Tables that name the same nodes share one list.
    """

    def __init__(self) -> None:
        self.lists: list[NDArray[Any]] = []  # each sorted

    def encode(self, columns: Columns) -> dict[str, dict[str, Any]]:
        """Return columns for JSON: the type that `page.js` knows, the bytes and, for text, the number of the list."""
        return {name: self._encode(column) for name, column in columns.items()}

    def _encode(self, column: Column) -> dict[str, Any]:
        if isinstance(column, np.ndarray):
            return encode_array(column)
        texts = np.array(column, dtype=object)
        for number, words in enumerate(self.lists):
            codes = np.searchsorted(words, texts)
            if len(words) and (words[np.minimum(codes, len(words) - 1)] == texts).all():
                return {"words": number, **encode_array(codes)}
        words, codes = np.unique(texts, return_inverse=True)
        self.lists.append(words)
        return {"words": len(self.lists) - 1, **encode_array(codes)}


def encode_array(values: NDArray[Any]) -> dict[str, str]:
    """Return an array in base64, a fifth of the size of its digits: the narrowest integers that hold it, or float32."""
    kind = "f4"
    if values.dtype.kind in "biu":
        least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
        holding = [kind for kind in ("u1", "u2", "i4") if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max]
        kind = holding[0] if holding else "f8"
    return {"type": kind, "bytes": b64encode(values.astype(f"<{kind}").tobytes()).decode()}


@cache
def _vega() -> str:
    """Return Vega, Vega-Lite and vega-embed (BSD licence) as one script.

    vl-convert needs seconds to bundle them, so the bundle is kept in the cache folder.
    """
    kept = cache_folder() / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError):
        return kept.read_text(encoding="utf-8")
    import vl_convert

    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    if "</script" in bundle:
        raise NlgnnError("This version of vl-convert cannot be put into a page.", "Install the pinned version.")
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_text(kept, bundle)
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
