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
        ([n % 21 for n in range(105)], True),
        ([f"c{n % 21}" for n in range(105)], True),
        ([n % 21 for n in range(21 * 20)], False),
        ([n % 20 for n in range(60)], False),
    ],
)
def test_classes_of_few_nodes_are_warned_of(tmp_path: Path, labels: list[object], warns: bool) -> None:
    found = read(tmp_path, nodes(labels), EDGES)
    words = "'label' has 21 classes, with 5 labelled nodes each on average: is it a column of classes?"
    assert (words in found.warnings) == warns
    assert found.graph.num_classes == len(set(labels))


REGRESSION: dict[str, list[object]] = {
    "prices": [f'"{n % 50},5 €"' for n in range(300)],
    "prices in English": [f'"$ {n % 50 + 1000:,}.5"' for n in range(300)],
    "shares": [f"{n % 40} %" for n in range(400)],
    "counts of many nodes each": [n % 250 for n in range(5000)],
    "negative numbers in brackets": [f"({n % 60})" for n in range(120)],
    "all different": [n / 7 for n in range(60)],
    "dates": [f"2024-{n % 12 + 1:02}-{n % 28 + 1:02}" for n in range(200)],
    "dates, day first": [f"{n % 28 + 1}.{n % 12 + 1}.2024" for n in range(200)],
}


@each_of("labels", REGRESSION.values(), ids=REGRESSION)
def test_measurements_are_refused_with_the_way_out(tmp_path: Path, labels: list[object]) -> None:
    with pytest.raises(DataError, match=r"nodes\.csv, column 'label' holds \d+ different .*no classes") as caught:
        read(tmp_path, nodes(labels), EDGES)
    assert "qcut" in caught.value.how
    bins = [f"bin {sum(map(ord, str(label))) % 4}" for label in labels]
    assert read(tmp_path, nodes(bins), EDGES).graph.num_classes <= 4


def test_numbers_that_are_named_as_classes_are_classes(tmp_path: Path) -> None:
    assert read(tmp_path, nodes([f"c{n % 250}" for n in range(5000)]), EDGES).graph.num_classes == 250
    assert read(tmp_path, nodes([n % 40 for n in range(400)]), EDGES).graph.num_classes == 40


class TestSpellings:
    LABELS = ("Yes", "yes ", "YES", "no", "No", "no", "?", "-", "#N/A", "n.a.", "", "Yes")

    def test_case_and_blanks_are_merged_and_said(self, tmp_path: Path) -> None:
        found = read(tmp_path, nodes(self.LABELS), EDGES)
        assert found.graph.class_names == ("Yes", "no")  # the most frequent spelling, and the rarer class second
        assert found.graph.y.tolist() == [0, 0, 0, 1, 1, 1, -1, -1, -1, -1, -1, 0]
        (said,) = (words for words in found.warnings if "are one class" in words)
        assert "'Yes' and 'YES'" in said or "'Yes' and 'yes'" in said
        assert any("(4 such cells)" in note for note in found.notes)  # marks of unknown labels

    def test_words_may_be_classes(self, tmp_path: Path) -> None:
        found = read(tmp_path, nodes(["none", "some", "unknown"] * 4), EDGES)
        assert found.graph.class_names == ("none", "some", "unknown")

    def test_new_labels_have_the_names_of_the_training(self, tmp_path: Path) -> None:
        new = read(tmp_path, nodes(["YES", " no", "yes"]), EDGES, class_names=("no", "Yes"))
        assert new.graph.y.tolist() == [1, 0, 1]
        two = read(tmp_path, nodes(["a", "A", " A"]), EDGES, class_names=("A", "a"))  # of arrays, say
        assert two.graph.y.tolist() == [1, 0, 0]


def test_an_unknown_end_says_which_columns_were_taken(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, nodes([0, 1, 0, 1]), "size,name\n7,n1\n")
    assert "edges do not go from 'size' to 'name'" in caught.value.how
