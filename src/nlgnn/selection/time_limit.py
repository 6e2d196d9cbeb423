"""TimeLimit: ends a training where it cannot finish within a time budget, and keeps the runs that there is time for."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from nlgnn.selection.clock import Clock, show_seconds
from nlgnn.shallow.base import EndOfRunsError
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import OUT_OF_TIME, Replica

TRIAL_EPOCHS = 5  # after which the time of a training is estimated
TRIAL_SECONDS = 0.5  # after which the time of a run without gradient training is estimated
SURE_RUNS = 3  # for which an entry may take twice as long


class OutOfTimeError(EndOfRunsError):
    """A training that cannot finish within the budget.

    Args:
        what: What is wrong.
        needed: The seconds that one run would take, if they are known.
    """

    def __init__(self, what: str, needed: float | None = None) -> None:
        super().__init__(what, "")
        self.needed = needed


class TimeLimit:
    """Watch of a training that ends it where it cannot finish in time.

    After a few epochs, or while a model without gradient training is fitted, the time of a run is estimated. As many
    runs are trained as there is time for; the others are postponed. A training of several splits at once that runs out
    of time ends with the best epochs so far.

    Args:
        clock: The clock of the race.
        runs: The number of runs.
        enforced: False for a training whose first run must finish, because nothing else has.
        until: For an entry that is always trained: when its first run must end with what it has, by `time.monotonic`.
        allowance: Seconds for all runs. One run may take longer.
        most: Seconds for the first run.
        shortened: Whether runs that run out of time end with the best epochs so far. Otherwise they are postponed.
    """

    def __init__(
        self,
        clock: Clock,
        runs: int,
        enforced: bool,
        until: float | None = None,
        allowance: float = math.inf,
        most: float = math.inf,
        shortened: bool = True,
    ) -> None:
        self.clock, self.runs, self.enforced, self.until = clock, runs, enforced, until
        self.shortened = shortened
        self.allowance, self.most = allowance, most
        self.begun = self.first_epoch = self.run_begun = time.monotonic()
        self.calls = 0
        self.admitted: set[int] | None = None  # runs that are trained at once with others; None for all
        self.first_step: tuple[float, float] | None = None  # when it ended, and the share of the run that was done
        self.remark = ""

    def __call__(self, replicas: Sequence[Replica]) -> None:
        """Note an epoch of the replicas in training, or a finished run if there are none.

        Raises:
            OutOfTimeError: If no further run can finish in time.
        """
        self.calls += 1
        if not replicas:
            self._end_run()
            return
        if self.calls == 1:
            self.first_epoch = time.monotonic()  # which takes longer than the others
        if self.calls == TRIAL_EPOCHS and (self.clock.left < math.inf or self.until is not None):
            self.admitted = {replica.run.index for replica in replicas[: self._affordable(replicas)]}
        admitted = [one for one in replicas if self.admitted is None or one.run.index in self.admitted]
        for replica in replicas:
            if replica not in admitted:
                replica.run.failure = OUT_OF_TIME
        late = time.monotonic() > self.until if self.until is not None else self.enforced and self.clock.left <= 0
        if late and self.until is None and (self.calls <= TRIAL_EPOCHS or not self.shortened):
            raise out_of_time(time.monotonic() - self.begun, self.clock.left)
        if late:
            self.admitted = {replica.run.index for replica in admitted}
            self.remark = f"out of time at epoch {replicas[0].epoch}"
            for replica in admitted:
                replica.dropped = True

    def _affordable(self, replicas: Sequence[Replica]) -> int:
        """Return for how many runs there is time, those in training first, from the epochs so far."""
        now = time.monotonic()
        step = (now - self.first_epoch) / (TRIAL_EPOCHS - 1) / len(replicas)
        each = step * max(0, expected_epochs(replicas[0].recipe) - TRIAL_EPOCHS)
        left, elapsed = self.clock.left, now - self.begun
        if each <= 0 or each * self.runs <= min(left, self.allowance - elapsed):
            return self.runs
        room = min(left, self.allowance - elapsed) / each
        sure = min(left, 2 * self.allowance - elapsed, SURE_RUNS * each) / each
        count = min(self.runs, max(0, int(room), int(sure)))
        if count == 0 and self.enforced and self.until is None and elapsed + each > min(self.most, elapsed + left):
            raise out_of_time(elapsed + each, left)
        return max(1, count)

    def _end_run(self) -> None:
        """Note a finished run of a model without gradient training, and end the training if the next takes too long."""
        now = time.monotonic()
        # What comes before the first step of the first run is not needed again.
        begun = self.first_step[0] if self.calls == 1 and self.first_step else self.run_begun
        each, elapsed = now - begun, now - self.begun
        self.run_begun, self.first_step = now, None
        room = (2 if self.calls < SURE_RUNS else 1) * self.allowance - elapsed
        if self.calls < self.runs and each > min(room, self.clock.left):
            raise out_of_time(each, self.clock.left)

    def within_run(self, done: float | None) -> bool:
        """Note the share of a run without gradient training that is done, or None before its first step.

        Returns:
            True if the run must end with what it has.

        Raises:
            OutOfTimeError: If the run cannot finish in time.
        """
        now = time.monotonic()
        if done is not None:
            self.first_step = self.first_step or (now, done)
        if self.calls == 0 and self.until is not None:
            if now > self.until:
                self.remark = "out of time: the run ended early"
            return now > self.until
        if self.calls == 0 and not self.enforced:
            return False
        since, before = self.first_step or (now, 0.0)
        needed = (now - since) / (done - before) * (1 - done) if done is not None and done > before else 0.0
        left = self.clock.left
        most = min(left, self.begun + self.most - now) if self.calls == 0 else left
        if most <= 0 or (now - since > TRIAL_SECONDS and needed > most):
            raise out_of_time(now - self.run_begun + needed, left)
        return False


def expected_epochs(recipe: Recipe) -> int:
    """Return the number of epochs after which most trainings stop."""
    most = recipe.pretrain_epochs + recipe.epochs
    if recipe.stopping == "never":
        return most
    return min(most, recipe.epochs // 2 if recipe.stopping == "window" else 2 * recipe.patience)


def out_of_time(needed: float, left: float) -> OutOfTimeError:
    """Return the error for a run that would take too long."""
    if left <= 0:
        return OutOfTimeError("no time is left", needed)
    return OutOfTimeError(f"a run would take about {show_seconds(needed)}, {show_seconds(left)} left", needed)
