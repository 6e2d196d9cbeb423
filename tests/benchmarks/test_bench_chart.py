"""The picture of times against nodes: the rows are tested, and that the drawing is a picture of sane size."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from benchmarks.page import chart_rows, scaling_chart
from nlgnn.report.figures import PALETTE, save_chart

TRAININGS = [
    {"system": system, "nodes": 10**power, "seconds": 10.0**power / 1e6, "peak GiB": 1.0}
    for system, powers in (("NLGCN", (4, 5, 6)), ("O(n²) attention", (4,)))
    for power in powers
]


def test_legend_of_the_scaling_has_exponents_where_there_are_any() -> None:
    rows = chart_rows(TRAININGS, {"NLGCN": 1.049})
    assert rows[1] == {"system": "NLGCN, n^1.05", "nodes": 10**5, "seconds": 0.1}
    assert rows[-1]["system"] == "O(n²) attention"


def test_scaling(tmp_path: Path) -> None:
    chart = scaling_chart(TRAININGS, {"NLGCN": 1.049})
    encoding = chart.to_dict()["encoding"]
    assert encoding["x"]["scale"]["type"] == encoding["y"]["scale"]["type"] == "log"
    save_chart(chart, tmp_path / "scaling.svg")
    text = (tmp_path / "scaling.svg").read_text()
    root = ElementTree.fromstring(text)
    assert 600 < float(root.attrib["width"]) < 1200
    for part in ("NLGCN, n^1.05", "O(n²) attention", "seconds per epoch", *PALETTE[:2]):
        assert part in text
