"""Figures: the rows are tested, and that the drawing is a picture of sane size."""

from __future__ import annotations

import struct
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from each_of import each_of
from nlgnn.analysis import SortedSequence
from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.report.figures import PALETTE, check_picture, save_chart
from nlgnn.report.figures.strips import BINS_DRAWN, NODES_DRAWN, label_rows, sequence_chart

GRAPH = Graph(np.eye(3), [[0], [1]], [1, -1, 0], name="three", class_names=["a", "b"])


def sequence(order: list[int]) -> SortedSequence:
    return SortedSequence(np.array(order), np.arange(3.0), GRAPH.y[order])


SEQUENCES = {"before": sequence([0, 1, 2]), "after": sequence([2, 0, 1])}


def test_rows_hold_the_class_at_every_position() -> None:
    orders = {title: order.labels.tolist() for title, order in SEQUENCES.items()}
    rows = label_rows(GRAPH.class_names, orders)
    assert [(row["order"], row["position"], row["end"], row["class"]) for row in rows] == [
        ("before", 0, 1, "b"),
        ("before", 1, 2, "unknown"),
        ("before", 2, 3, "a"),
        ("after", 0, 1, "a"),
        ("after", 1, 2, "b"),
        ("after", 2, 3, "unknown"),
    ]
    assert label_rows(GRAPH.class_names, orders) == rows  # nothing was used up


def test_a_run_of_one_class_is_one_rectangle() -> None:
    rows = label_rows("ab", {"order": [0, 0, 1, 0]})
    assert [(row["position"], row["end"], row["class"]) for row in rows] == [(0, 2, "a"), (2, 3, "b"), (3, 4, "a")]
    assert {(row["low"], row["high"]) for row in rows} == {(0, 1)}


def test_long_orders_are_drawn_in_parts() -> None:
    """Every node is in one of them, and heights are shares."""
    labels = np.random.default_rng(0).integers(3, size=NODES_DRAWN + 50)
    labels[:11] = 1
    rows = label_rows("abc", {"order": labels.tolist()})
    starts = sorted({row["position"] for row in rows})
    assert len(starts) == BINS_DRAWN
    assert rows[0] == {"order": "order", "position": 0, "end": starts[1], "class": "b", "low": 0, "high": 1}
    assert max(row["end"] for row in rows) == pytest.approx(len(labels))
    nodes = 0.0
    for number, start in enumerate(starts):
        part = [row for row in rows if row["position"] == start]
        assert [row["low"] for row in part] == [0, *(row["high"] for row in part[:-1])]
        assert part[-1]["high"] == pytest.approx(1)
        size = round((number + 1) * len(labels) / BINS_DRAWN) - round(number * len(labels) / BINS_DRAWN)
        nodes += size * sum(row["high"] - row["low"] for row in part if row["class"] == "b")
    assert nodes == pytest.approx((labels == 1).sum())


def test_svg(tmp_path: Path) -> None:
    save_chart(sequence_chart(GRAPH, SEQUENCES), tmp_path / "order.svg")
    text = (tmp_path / "order.svg").read_text()
    root = ElementTree.fromstring(text)
    assert 800 < float(root.attrib["width"]) < 2000
    assert 80 < float(root.attrib["height"]) < 1000
    for part in ("before", "after", "three: all nodes", *PALETTE[:2]):
        assert part in text


def test_png(tmp_path: Path) -> None:
    save_chart(sequence_chart(GRAPH, SEQUENCES), tmp_path / "order.png")
    content = (tmp_path / "order.png").read_bytes()
    width, height = struct.unpack(">II", content[16:24])  # where every PNG has them
    assert content[:4] == b"\x89PNG"
    assert 800 < width < 2000
    assert 80 < height < 1000


@each_of("name", ["order.docx", "order", "order.html", "none/order.svg"])
def test_file_that_cannot_be_drawn(name: str, tmp_path: Path) -> None:
    for check in (check_picture, lambda path: save_chart(sequence_chart(GRAPH, SEQUENCES), path)):
        with pytest.raises(NlgnnError, match=name) as raised:
            check(tmp_path / name)
        assert raised.value.how
    assert not list(tmp_path.iterdir())


def test_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "order.svg").mkdir()
    with pytest.raises(NlgnnError, match=r"order\.svg cannot be written: it is not an ordinary file"):
        save_chart(sequence_chart(GRAPH, SEQUENCES), tmp_path / "order.svg")


def test_colours_differ() -> None:
    assert len(set(PALETTE)) == len(PALETTE) >= 8
