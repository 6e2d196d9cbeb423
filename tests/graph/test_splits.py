from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_of import each_of
from nlgnn.errors import DataError, OptionError
from nlgnn.graph import Graph, Split, make_splits, random_split

LABELS = st.lists(st.integers(-1, 4), min_size=1, max_size=80).map(np.array)


def labelled_graph(y: np.ndarray, **splits: tuple[Split, ...]) -> Graph:
    return Graph(np.ones((len(y), 1)), np.empty((2, 0), np.int64), y, name="g", splits=splits)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("texas", (107, 37, 39)),
        ("wisconsin", (149, 50, 52)),
        ("chameleon", (1364, 455, 458)),
        ("squirrel", (3120, 1040, 1041)),
        ("actor", (4559, 1520, 1521)),
    ],
)
def test_sizes_of_the_authors_random_splits(real_graph: Callable[[str], Graph], name: str, sizes: tuple) -> None:
    for split in make_splits(real_graph(name), "random-60", runs=3):
        assert (split.train.sum(), split.val.sum(), split.test.sum()) == sizes


@given(LABELS, st.sampled_from([("random-60", 6, 8), ("random-10", 1, 2)]), st.integers(0, 5))
def test_random_splits_divide_every_class(y: np.ndarray, protocol: tuple[str, int, int], seed: int) -> None:
    name, train_tenths, val_tenths = protocol
    split = random_split(y, name, index=3, seed=seed)
    assert np.array_equal(split.train.astype(int) + split.val + split.test, y >= 0)  # disjoint, all labelled, no others
    for label in range(5):
        size = (y == label).sum()
        train, val = size * train_tenths // 10, size * val_tenths // 10
        parts = [mask[y == label].sum() for mask in (split.train, split.val, split.test)]
        assert parts == [train, val - train, size - val]


def test_a_single_node_of_a_class_is_always_tested() -> None:
    y = np.array([0] * 10 + [1])
    assert all(split.test[10] for split in make_splits(labelled_graph(y), "random-60"))


def test_seed_and_run_decide_the_split() -> None:
    graph = labelled_graph(np.arange(100) % 3)
    first, again = make_splits(graph, "random-60"), make_splits(graph, "random-60")
    assert len(first) == 10
    assert [split.index for split in first] == list(range(10))
    assert all(np.array_equal(a.train, b.train) for a, b in zip(first, again, strict=True))
    assert len({split.train.tobytes() for split in first}) == 10
    other_seed = make_splits(graph, "random-60", seed=1)
    assert not np.array_equal(first[0].train, other_seed[0].train)
    # Asking for fewer runs does not change those that remain.
    assert np.array_equal(make_splits(graph, "random-60", runs=2)[1].train, first[1].train)


def test_more_runs_than_fixed_splits_start_again() -> None:
    fixed = tuple(Split.from_indices(3, [i], [(i + 1) % 3], [(i + 2) % 3], index=i) for i in range(3))
    graph = labelled_graph(np.array([0, 1, 0]), column=fixed)
    assert make_splits(graph, "column") == list(fixed)
    assert make_splits(graph, "column", runs=2) == list(fixed[:2])
    assert make_splits(graph, "column", runs=7) == [*fixed, *fixed, fixed[0]]


def test_unknown_protocols_suggest_one() -> None:
    graph = labelled_graph(np.array([0, 1]))
    with pytest.raises(OptionError, match=r"no splits 'random60'[^?]*Did you mean 'random-60'\?"):
        make_splits(graph, "random60")
    with pytest.raises(OptionError, match=r"(?s)no splits 'geom-gcn'.*It has: random-60, random-10"):
        make_splits(graph, "geom-gcn")
    with pytest.raises(OptionError, match="has no splits 'column'"):
        make_splits(labelled_graph(np.array([0, 1]), column=()), "column")
    with pytest.raises(OptionError, match="Did you mean 'random-10'"):
        random_split(graph.y, "random-1", index=0)
    with pytest.raises(OptionError, match="runs=0"):
        make_splits(graph, "random-60", runs=0)


def test_masks_may_be_zeros_and_ones() -> None:
    split = Split(np.array([1, 0, 0]), np.array([0.0, 1.0, 0.0]), np.array([False, False, True]))
    assert split.train.dtype == split.val.dtype == bool
    assert split.train.tolist() == [True, False, False]


@each_of(
    ("masks", "message"),
    [
        (([1, 1, 0], [0, 1, 0], [0, 0, 1]), r"node 1 is in more than one part \(1 such nodes\)"),
        (([1, 0, 0], [0, 1], [0, 0, 1]), r"different lengths \[2, 3\]"),
        (([0, 2, 1], [0, 1, 0], [0, 0, 1]), r"the train mask .* is not one 0 or 1 per node"),
        (([1, 0, 0], [[0, 1, 0]], [0, 0, 1]), r"the val mask of shape \(1, 3\)"),
    ],
)
def test_masks_that_cannot_be_used(masks: tuple, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Split(*(np.array(mask) for mask in masks))


def test_splits_from_node_numbers() -> None:
    split = Split.from_indices(5, [0, 4], [], [2], protocol="ogb", index=1)
    assert np.flatnonzero(split.train).tolist() == [0, 4]
    assert split.val.sum() == 0
    assert (split.protocol, split.index) == ("ogb", 1)


@each_of(
    ("train", "message"),
    [
        ([0, 5], "the train list names node 5, but nodes are numbered 0 to 4"),
        ([-1], "names node -1"),
        ([True, False, False, False, False], "the train list is of type bool"),
        ([1], "node 1 is in more than one part"),
    ],
)
def test_node_numbers_that_cannot_be_used(train: list, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Split.from_indices(5, train, [1], [2])
