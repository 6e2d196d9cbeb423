"""Which settings are dropped on the way, and that training without anybody watching stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import pytest

from each_of import each_of
from nlgnn.nn import MLP
from nlgnn.training.fit import fit_settings
from nlgnn.training.replica import Replica
from nlgnn.tuning.tune import FEWEST_COMPARED, Halving, is_hopeless, rungs_of
from training_samples import assert_same_runs, easy_graph, recipe, splits_of

GRAPH = easy_graph()
FACTORY = partial(MLP, 4, 4, 2, dropout=0.5)


def test_rungs_are_a_quarter_and_half() -> None:
    assert rungs_of(300) == (75, 150)
    assert rungs_of(4) == ()


@each_of(
    ("value", "others", "dropped"),
    [
        (10, [20] * (FEWEST_COMPARED - 2), False),  # too few to tell
        (10, [20] * (FEWEST_COMPARED - 1), True),
        (3, [1, 2, 4, 5, 6], True),  # half are better
        (4, [1, 2, 3, 5, 6], False),
        (5, [5, 5, 5, 5, 5], False),  # as good is not behind
        (1, [1, 1, 1, 5, 6], False),  # though it is last, most are no better
    ],
)
def test_the_worse_half_is_hopeless(value: float, others: list[float], dropped: bool) -> None:
    assert is_hopeless(value, [value, *others]) == dropped


@dataclass
class Board:
    """What a study would know: the values of others, and of ours once they are reported."""

    others: dict[int, list[float]] = field(default_factory=dict)
    reported: list[tuple[int, dict[int, float]]] = field(default_factory=list)

    def report(self, rung: int, values: Mapping[int, float]) -> list[float]:
        self.reported.append((rung, dict(values)))
        return [*self.others.get(rung, []), *values.values()]


def fake(setting: int, split: int, epoch: int, best: float, over: bool = False, failure: str | None = None) -> Replica:
    return SimpleNamespace(  # type: ignore[return-value]
        setting=setting,
        epoch=epoch,
        dropped=False,
        is_over=over or failure is not None,
        run=SimpleNamespace(index=split, failure=failure),
        recipe=SimpleNamespace(pretrain_epochs=0),
        curves={"val_metric": [best]},
        course=SimpleNamespace(best_epoch=1),
    )


@pytest.mark.usefixtures("as_users_run_it")
class TestHalving:
    def test_a_setting_is_compared_once_all_its_splits_are_there(self) -> None:
        board = Board({5: [90.0] * FEWEST_COMPARED})
        halving = Halving([5], 2, board.report)
        first = [fake(0, 0, 5, 50.0), fake(0, 1, 4, 70.0)]
        halving(first)
        assert board.reported == []
        second = [fake(0, 0, 6, 55.0), fake(0, 1, 5, 70.0)]
        halving(second)
        assert board.reported == [(5, {0: 60.0})]  # what each had at the rung
        assert [replica.dropped for replica in second] == [True, True]
        halving(second)
        assert len(board.reported) == 1

    def test_good_ones_go_on(self) -> None:
        board = Board({5: [10.0] * FEWEST_COMPARED})
        replicas = [fake(0, 0, 5, 50.0), fake(1, 0, 5, 5.0)]
        halving = Halving([5], 1, board.report)
        halving(replicas)
        assert halving.dropped == {1}
        assert [replica.dropped for replica in replicas] == [False, True]

    def test_a_split_that_stopped_early_counts_with_what_it_has(self) -> None:
        board = Board()
        halving = Halving([5, 9], 2, board.report)
        halving([fake(0, 0, 3, 40.0, over=True), fake(0, 1, 3, 60.0)])
        halving([fake(0, 1, 5, 70.0)])
        assert board.reported == [(5, {0: 55.0})]

    def test_what_was_trained_to_its_end_is_not_dropped(self) -> None:
        halving = Halving([5], 1, Board({5: [90.0] * FEWEST_COMPARED}).report)
        halving([fake(0, 0, 3, 40.0, over=True)])
        assert halving.dropped == set()

    def test_a_failure_on_one_split_ends_the_others(self) -> None:
        halving = Halving([], 2, Board().report)
        replicas = [fake(0, 0, 2, 40.0, failure="nan"), fake(0, 1, 2, 40.0), fake(1, 0, 2, 40.0)]
        halving(replicas)
        assert halving.dropped == {0}
        assert [replica.dropped for replica in replicas] == [True, True, False]


def test_dropped_replicas_stop_and_the_others_do_not_change() -> None:
    settings = [(FACTORY, recipe(epochs=12, lr=lr)) for lr in (0.01, 0.03, 0.05, 0.1)]
    seen: list[int] = []

    def watch(replicas: object) -> None:
        for replica in replicas:  # type: ignore[attr-defined]
            seen.append(replica.setting)
            replica.dropped |= replica.setting == 1 and replica.epoch == 5

    alone = fit_settings(settings, GRAPH, splits_of(GRAPH, 2), progress=False)
    watched = fit_settings(settings, GRAPH, splits_of(GRAPH, 2), progress=False, watch=watch)
    assert set(seen) == {0, 1, 2, 3}
    assert [run.epochs for run in watched[1]] == [5, 5]
    assert [run.curves["val_loss"] for run in watched[1]] == [run.curves["val_loss"][:5] for run in alone[1]]
    for number in (0, 2, 3):
        assert_same_runs(watched[number], alone[number])
