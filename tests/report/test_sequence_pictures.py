"""The pictures of the sorted sequence: one for every cell that is measured."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nlgnn.errors import NlgnnError
from nlgnn.experiments.cells import cell_path
from nlgnn.experiments.sequences import SequenceCell, sequence_cells
from nlgnn.report.sequence_pictures import draw

TEXAS, *OTHERS = sequence_cells("random-60")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write(TEXAS, tmp_path)
    return tmp_path


def write(cell: SequenceCell, folder: Path) -> None:
    result = {
        "seconds": 1.0,
        "model": {},
        "recipe": {},
        "options": {},
        "class names": ["dog", "cat"],
        "labels": {"before": "0101", "after": "0011"},
        "homophily": {"graph": 0.1, "chance": 0.4, "before": [0.35], "after": [0.62]},
        "runs": [{"chosen_epoch": 12, "test": 80.0}],
    }
    path = cell_path(cell, folder)
    path.parent.mkdir()
    path.write_text(json.dumps(result))


def test_drawing(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "pictures"
    assert draw([TEXAS, *OTHERS], results, folder) == [folder / "sequence-texas.svg"]
    text = (folder / "sequence-texas.svg").read_text()
    ElementTree.fromstring(text)
    for part in ("before training: H 0.35", "epoch 12: H 0.62", "by chance H 0.40, in the graph 0.10", "dog", "cat"):
        assert part in text


def test_a_folder_that_cannot_be_made(results: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NlgnnError, match="there is no folder"):
        draw([TEXAS], results, tmp_path / "file" / "pictures")
