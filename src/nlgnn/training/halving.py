"""Halving: after a quarter and after half of the epochs, settings that are behind half of the others go no further."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from nlgnn.training.replica import Replica

FEWEST = 6  # settings that are compared before any is dropped

# Notes the values of settings, by their place, at a rung, and gives those of all settings that were ever there.
Report = Callable[[int, Mapping[int, float]], Sequence[float]]


def rungs_of(epochs: int) -> tuple[int, ...]:
    """The epochs at which settings are compared; none where there are too few to tell anything."""
    return tuple(epochs // share for share in (4, 2)) if epochs >= 8 else ()


def is_hopeless(value: float, known: Sequence[float]) -> bool:
    """Whether at least half of the settings known at a rung, itself among them, are better."""
    return len(known) >= FEWEST and sum(other > value for other in known) >= (len(known) + 1) // 2


class Halving:
    """Watches settings in training; values are means over splits of the validation figure of the best epoch so far."""

    def __init__(self, rungs: Sequence[int], splits: int, report: Report) -> None:
        self.rungs, self.splits, self.report = rungs, splits, report
        self.dropped: set[int] = set()
        # By rung and setting, what each split had reached there.
        self._reached: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
        self._compared: set[tuple[int, int]] = set()
        self._over: dict[int, set[int]] = defaultdict(set)  # splits that were trained to their end, by setting

    def __call__(self, replicas: Sequence[Replica]) -> None:
        for replica in replicas:
            if replica.run.failure is not None:  # a setting that cannot be trained on one split is of no use
                self.dropped.add(replica.setting)
            else:
                self._note(replica)
        for rung in self.rungs:
            self._compare(rung)
        for replica in replicas:
            replica.dropped |= replica.setting in self.dropped

    def _note(self, replica: Replica) -> None:
        if replica.is_over and not replica.dropped:
            self._over[replica.setting].add(replica.run.index)
        epoch = replica.epoch - replica.recipe.pretrain_epochs
        for rung in self.rungs:
            if epoch == rung or (epoch < rung and replica.is_over):
                best = replica.curves["val_metric"][replica.course.best_epoch - 1]
                self._reached[rung, replica.setting].setdefault(replica.run.index, best)

    def _compare(self, rung: int) -> None:
        new = {
            setting: fmean(values.values())
            for (at, setting), values in self._reached.items()
            if at == rung and len(values) == self.splits and (at, setting) not in self._compared
            if setting not in self.dropped
        }
        if new:
            self._compared |= {(rung, setting) for setting in new}
            known = self.report(rung, new)
            self.dropped |= {
                setting
                for setting, value in new.items()
                if is_hopeless(value, known) and len(self._over[setting]) < self.splits
            }
