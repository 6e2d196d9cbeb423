"""Labels that are numbers: classes, or rather amounts and counts?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from table_samples import read

from each_of import each_of
from nlgnn.errors import DataError


def nodes(labels: Sequence[object]) -> str:
    return "id,label,size\n" + "".join(f"n{row},{label},{row % 7}\n" for row, label in enumerate(labels))


EDGES = "source,target\nn0,n1\n"


@pytest.mark.parametrize("labels", [[n % 60 for n in range(120)], [f"{n % 30}.0" for n in range(60)]], ids=["60", "30"])
def test_many_numbers_with_few_nodes_each_are_no_classes(tmp_path: Path, labels: list[object]) -> None:
    with pytest.raises(
        DataError, match=rf"holds {len(set(labels))} different numbers, such as 0: these are no classes"
    ):
        read(tmp_path, nodes(labels), EDGES)


@each_of(
    ("labels", "warns"),
    [
        ([n % 21 for n in range(100)], True),
        ([f"c{n % 21}" for n in range(100)], True),
        ([n % 21 for n in range(21 * 20)], False),
        ([n % 20 for n in range(60)], False),
    ],
)
def test_classes_of_few_nodes_are_warned_of(tmp_path: Path, labels: list[object], warns: bool) -> None:
    found = read(tmp_path, nodes(labels), EDGES)
    words = "'label' has 21 classes, with 5 labelled nodes each on average: is it a column of classes?"
    assert (words in found.warnings) == warns
    assert found.graph.num_classes == len(set(labels))


def test_an_unknown_end_says_which_columns_were_taken(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, nodes([0, 1, 0, 1]), "size,name\n7,n1\n")
    assert "edges do not go from 'size' to 'name'" in caught.value.how
