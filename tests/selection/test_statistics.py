"""The interval against SciPy's own paired test."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import ttest_rel

from nlgnn.selection import statistics
from nlgnn.selection.statistics import (
    MOST_DRAWN,
    SAMPLES,
    Interval,
    SingleRun,
    compared_rows,
    is_clearly_better,
    paired_interval,
    spread,
    tally,
)
from nlgnn.training.metrics import measure


def test_it_is_the_interval_of_the_paired_t_test() -> None:
    one, other = [80.0, 82.5, 79.0, 90.0], [75.0, 80.0, 80.0, 81.0]
    found = paired_interval([*one, None], [*other, 50.0])  # a run that failed counts for nothing
    wanted = ttest_rel(one, other).confidence_interval(0.95)
    assert found is not None
    assert found == pytest.approx((3.875, found.error, wanted.low, wanted.high, 4))
    assert found.error == pytest.approx(3.875 / ttest_rel(one, other).statistic)
    assert not found.excludes_zero


def test_mean_and_standard_error_by_hand() -> None:
    # differences 2, 4, 6, 8: mean 5, variance 20/3, standard error (20/3/4) ** 0.5
    found = paired_interval([3.0, 6.0, 9.0, 12.0], [1.0, 2.0, 3.0, 4.0])
    assert found is not None
    assert found[:2] == (5, pytest.approx((5 / 3) ** 0.5))
    with pytest.raises(ValueError, match=r"shorter|longer"):
        paired_interval([1.0], [1.0, 2.0])


def test_spread() -> None:
    assert spread([]) is None
    assert spread([None]) is None
    assert str(spread([50.04])) == "50.0"
    assert spread([1.0, 3.0, None, 5.0]) == (3.0, 2.0)  # the sample's: ((4 + 0 + 4) / 2) ** 0.5
    assert str(spread([1.0, 3.0, 5.0])) == "3.0 ± 2.0"


def test_one_pair_has_no_interval() -> None:
    assert paired_interval([1.0, None], [2.0, 3.0]) is None
    assert paired_interval([], []) is None


def test_equal_differences_are_no_proof() -> None:
    assert paired_interval([3.0, 5.0], [1.0, 3.0]) == (2.0, 0.0, 2.0, 2.0, 2)
    same = paired_interval([3.0, 5.0], [3.0, 5.0])
    assert same is not None
    assert not same.excludes_zero
    equal = paired_interval([3.0, 5.0], [1.0, 3.0])  # which may be chance: nothing tells how much they vary
    assert not equal.excludes_zero
    rounded = paired_interval([80.3, 70.3, 60.3], [80.1, 70.1, 60.1])
    assert rounded.error > 0
    assert not rounded.excludes_zero


@pytest.mark.parametrize(
    ("low", "high", "above", "below"), [(0.1, 2, True, False), (-2, -0.1, False, True), (-1, 1, False, False)]
)
def test_where_zero_is(low: float, high: float, above: bool, below: bool) -> None:
    interval = Interval((low + high) / 2, 1.0, low, high, 5)
    assert (interval.is_above_zero, interval.is_below_zero) == (above, below)
    assert interval.excludes_zero is (above or below)


def test_zero_at_the_edge_is_inside() -> None:
    assert not Interval(1.0, 1.0, 0.0, 2.0, 5).excludes_zero


def test_text() -> None:
    assert str(Interval(-2.04, 0.5, -3.0, 1.0, 5)) == "-2.0 [-3.0, +1.0]"


def test_rows_of_a_comparison() -> None:
    figures = {"gcn": [80.0, 82.5, 79.0], "mlp": [75.0, 80.0, 76.0], "none": [None]}
    differences = {"mlp": paired_interval(figures["gcn"], figures["mlp"]), "none": None}
    assert [list(row.values()) for row in compared_rows("model", "test", figures, "minus it", differences)] == [
        ["gcn", "80.5 ± 1.8", ""],
        ["mlp", "77.0 ± 2.6", "+3.5 [+0.2, +6.8]"],
        ["none", "–", "–"],
    ]


def test_tally() -> None:
    intervals = [Interval(mean, 1.0, mean - 2.3, mean + 2.3, 10) for mean in (3.0, 2.5, -3.0, 1.9)]
    counted = tally([*intervals, None])
    assert counted == (2, 1, 1, 1)
    assert str(counted) == "2 clearly above, 1 clearly below, 1 neither"


def right_and_wrong(nodes: int) -> tuple[SingleRun, SingleRun]:
    """Return a run that is right everywhere, compared with one that is wrong everywhere, and the reverse."""
    y = torch.arange(nodes) % 2
    right, wrong = torch.eye(2)[y], torch.eye(2)[1 - y]
    return SingleRun("accuracy", right, wrong, y), SingleRun("accuracy", wrong, right, y)


def test_clearly_better() -> None:
    right, wrong = right_and_wrong(60)
    assert is_clearly_better([80.0, 82.0, None], [70.0, 71.0, 60.0], wrong)  # two runs have an interval
    assert not is_clearly_better([80.0, 90.0], [70.0, 71.0], right)
    assert is_clearly_better([80.0], [70.0], right)
    assert is_clearly_better([80.0], [70.0], wrong) is False
    assert is_clearly_better([80.0], [70.0]) is None
    assert is_clearly_better([70.0], [70.0]) is False
    few = wrong.logits.clone()
    few[:2] = right.logits[:2]
    assert is_clearly_better([80.0], [70.0], right._replace(logits=few)) is False  # it is right on two more nodes


def test_samples_of_many_nodes_are_small_and_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = list[int]()

    def counted(metric: str, logits: torch.Tensor, y: torch.Tensor) -> float:
        sizes.append(len(y))
        return measure(metric, logits, y)

    monkeypatch.setattr(statistics, "measure", counted)
    right, wrong = right_and_wrong(10 * MOST_DRAWN)
    assert right.is_clearly_better
    assert sizes == [MOST_DRAWN] * 2 * SAMPLES
    sizes.clear()
    assert not wrong.is_clearly_better
    assert len(sizes) < SAMPLES
