"""Splits by time and by group."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from each_of import each_of
from nlgnn.errors import DataError
from nlgnn.graph.column_splits import group_splits, time_split

NODES = st.lists(
    st.tuples(st.sampled_from([1.0, 2.0, 3.5, 4.0, 7.0, 9.0, np.nan]), st.integers(-1, 2), st.integers(0, 5)),
    min_size=3,
    max_size=60,
)


@given(NODES)
def test_parts_follow_each_other_in_time(nodes: list[tuple[float, int, int]]) -> None:
    times, y = np.array([time for time, _, _ in nodes]), np.array([label for _, label, _ in nodes])
    known = (y >= 0) & ~np.isnan(times)
    assume(len(np.unique(times[known])) >= 3)
    split = time_split(times, y)
    assert np.array_equal(split.train.astype(int) + split.val + split.test, known)
    assert times[split.train].max() < times[split.val].min()  # nodes of one time are in one part
    assert times[split.val].max() < times[split.test].min()
    assert split.protocol == "time"


@given(st.permutations(range(10)))
def test_sixty_twenty_twenty_in_any_order_of_rows(order: list[int]) -> None:
    split = time_split(np.array(order, float), np.zeros(10, int))
    assert sorted(np.array(order)[split.train]) == [0, 1, 2, 3, 4, 5]
    assert sorted(np.array(order)[split.test]) == [8, 9]


@given(NODES)
def test_groups_are_in_one_part_and_training_ends_before_validation(nodes: list[tuple[float, int, int]]) -> None:
    times, y, groups = (np.array(column) for column in zip(*nodes, strict=True))
    known = (y >= 0) & ~np.isnan(times)
    latest = {group: times[known & (groups == group)].max() for group in np.unique(groups[known])}
    assume(len(set(latest.values())) >= 3)
    split = time_split(times, y, groups)
    parts = np.select([split.train, split.val, split.test], [0, 1, 2], -1)
    for group in latest:
        assert len(np.unique(parts[known & (groups == group)])) == 1
    assert max(latest[group] for group in groups[split.train]) < min(latest[group] for group in groups[split.val])
    assert max(latest[group] for group in groups[split.val]) < min(latest[group] for group in groups[split.test])


@each_of("times", [[1.0, 1, 1, 1], [1.0, 1, 2, 2], [np.nan, np.nan, 1, 2]])
def test_too_few_times(times: list[float]) -> None:
    with pytest.raises(DataError, match="different times"):
        time_split(np.array(times), np.array([0, 1, 0, 1]))


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(-1, 2)), min_size=8, max_size=80))
def test_groups_are_kept_together(nodes: list[tuple[int, int]]) -> None:
    groups, y = (np.array(column) for column in zip(*nodes, strict=True))
    try:
        splits = group_splits(groups, y)
    except DataError:
        sizes = np.bincount(groups[y >= 0])
        assert (sizes > 0).sum() < 3 or sizes.max() * 5 > (y >= 0).sum()
        return
    for split in splits:
        assert np.array_equal(split.train.astype(int) + split.val + split.test, y >= 0)
        parts = np.select([split.train, split.val, split.test], [0, 1, 2], -1)
        assert all(len(np.unique(parts[(groups == group) & (y >= 0)])) <= 1 for group in range(9))
        assert split.train.any()
        assert split.val.any()
        assert split.test.any()
    assert np.array_equal(sum(split.test.astype(int) for split in splits), y >= 0)  # each node is tested once


@each_of("groups", [[0] * 8 + [1, 2], [0] * 5 + [1] * 5])
def test_groups_that_fit_in_no_part(groups: list[int]) -> None:
    with pytest.raises(DataError, match="group"):
        group_splits(np.array(groups), np.arange(10) % 2)
