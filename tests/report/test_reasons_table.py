"""Reasons as tables: of one node, of several on the console, and of several in a file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nlgnn.analysis.reasons import Neighbour, Reasons
from nlgnn.report import reasons as module
from nlgnn.report.reasons import neighbours_section, reason_columns, reasons_dict, reasons_section, several_sections
from nlgnn.training.train import Trained

FIRST = Reasons(
    *(0, "ann", "yes", "no", "yes", 0.25),
    parts={"own columns": 0.1, "neighbours' columns": -0.0125},
    neighbours=(Neighbour(1, "bob", None, "no", -0.5), Neighbour(2, "cy", "no", "no", 0.25)),
    num_neighbours=9,
)
SECOND = replace(FIRST, node=1, name="bob", label=None, neighbours=())


def test_one_node() -> None:
    section = reasons_section(FIRST, of_ensemble=False)
    assert [list(row.values()) for row in section.rows] == [
        ["own columns", "+0.100"],
        ["neighbours' columns", "-0.013"],
    ]
    assert len(reasons_section(FIRST, of_ensemble=True).caption) > len(section.caption)
    (row,) = neighbours_section(FIRST, 1).rows
    assert list(row.values()) == ["bob", "unknown", "no", "-0.500"]
    assert "2 of 9 neighbours" in neighbours_section(FIRST, 1).caption


def test_several_nodes(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    (section,) = several_sections([FIRST, SECOND], trained)
    assert [row["strongest neighbours"] for row in section.rows] == ["bob -0.500, cy +0.250", "–"]
    assert [row["probability of yes"] for row in section.rows] == ["0.250", "0.250"]
    (section,) = several_sections([FIRST, replace(SECOND, of_class="no")], trained)
    assert "probability" in section.rows[0]
    monkeypatch.setattr(module, "MOST_NODES_SHOWN", 1)
    (section,) = several_sections([FIRST, SECOND], trained)
    assert len(section.rows) == 1
    assert "1 of 2 nodes" in section.caption


def test_columns_of_a_file() -> None:
    columns = reason_columns([FIRST, SECOND], top=1)
    assert columns == {
        "node": ["ann", "bob"],
        "label": ["yes", None],
        "prediction": ["no", "no"],
        "explained class": ["yes", "yes"],
        "probability": [0.25, 0.25],
        "own columns": [0.1, 0.1],
        "neighbours' columns": [-0.0125, -0.0125],
        "neighbour 1": ["bob", None],
        "contribution of neighbour 1": [-0.5, None],
    }


def test_dictionary_for_json() -> None:
    found = reasons_dict(FIRST, top=1)
    assert (found["name"], found["parts"], len(found["neighbours"])) == ("ann", FIRST.parts, 1)
