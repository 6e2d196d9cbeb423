"""Thresholds of a probability: rules, how a rule is followed on validation nodes, and precision and recall of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.training.predict import Probabilities, calibrated

BEST_F1 = "best-f1"
RULE_HELP = "Give best-f1, precision=0.9, recall=0.8 or a number between 0 and 1."


class Rule(NamedTuple):
    """A rule for a threshold. `kind` is best-f1, precision, recall or fixed; `value` is the wanted value, if any."""

    kind: str
    value: float = 0.0


def parse_threshold(text: str) -> Rule:
    """Return the rule that a text such as `best-f1`, `precision=0.9` or `0.3` stands for.

    Raises:
        OptionError: If the text is none of them.

    Example:
        >>> parse_threshold("precision=0.9")
        Rule(kind='precision', value=0.9)
    """
    if text.strip() == BEST_F1:
        return Rule(BEST_F1)
    found = re.fullmatch(r"(?:(precision|recall)=)?(\d*\.?\d+|\d+\.)", text.strip())
    value = float(found[2]) if found else 2.0
    if found is None or not 0 <= value <= 1 or (found[1] and value == 0):
        raise OptionError(f"threshold={text!r} is not a threshold.", RULE_HELP)
    return Rule(found[1] or "fixed", value)


class Answers(NamedTuple):
    """Probabilities and labels of some nodes: `[k, c]` and `[k]`."""

    probabilities: Probabilities
    labels: NDArray[np.int64]

    @classmethod
    def together(cls, each: Sequence[Answers]) -> Answers:
        """Return the answers of all runs, run after run."""
        return cls(*(np.concatenate(parts) for parts in zip(*each, strict=True)))


def answers_of(
    probabilities: Probabilities, temperatures: Sequence[float], graph: Graph, splits: Sequence[Split], part: str
) -> list[Answers]:
    """Return what each run says about the labelled nodes of a part of its own split, calibrated.

    Args:
        probabilities: Uncalibrated probabilities, `[runs, n, c]`.
        temperatures: The temperature of each run.
        graph: The graph.
        splits: The split of each run.
        part: val or test.
    """
    nodes = [np.flatnonzero(getattr(split, part) & graph.labelled) for split in splits]
    each = zip(probabilities, temperatures, nodes, strict=True)
    return [Answers(calibrated(one[own], heat), graph.y[own]) for one, heat, own in each]


class Point(NamedTuple):
    """A threshold with precision and recall, from 0 to 1, of the nodes that reach it."""

    threshold: float
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Return the harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def thresholds(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return all different outcomes of a threshold, the highest first.

    Args:
        scores: The probability of the positive class of each node.
        positive: Whether each node is of the positive class.

    Returns:
        One row per distinct score: a threshold halfway to the next lower score, precision, recall, and the share of the
        other nodes that reach it.
    """
    order = np.argsort(-scores, kind="stable")
    found, ranked = positive[order], scores[order].astype(np.float64)
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)) if len(ranked) else np.zeros(0, np.int64)
    above = ranked[last]
    below = np.append(above[1:], 0.0) if len(above) else above
    middle = (above + below) / 2
    hits = np.cumsum(found)[last]
    others = last + 1 - hits
    return np.stack(
        [
            np.where(middle > below, middle, above),  # rounding may end at the lower score
            hits / (last + 1),
            hits / max(1, positive.sum()),
            others / max(1, (~positive).sum()),
        ],
        axis=1,
    )


def choose_threshold(rule: Rule, scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> Point:
    """Return the threshold of a rule for the nodes of one run, at least one of which is positive.

    best-f1 has the highest F1. A wanted precision has the highest recall among thresholds of this precision or a higher
    one; a wanted recall has the highest precision likewise. If the precision is not reached, the threshold with the
    highest precision is returned.
    """
    table = thresholds(scores, positive)
    _, precision, recall, _ = table.T
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    enough = np.ones(len(table), bool)
    if rule.kind in ("precision", "recall"):
        enough = (precision if rule.kind == "precision" else recall) >= rule.value - 1e-12
    first, second = {BEST_F1: (f1, f1), "precision": (recall, precision), "recall": (precision, recall)}[rule.kind]
    if not enough.any():
        first, second = precision, recall
    best = np.lexsort((-second, -first, ~enough))[0]  # of equal ones the highest threshold
    return Point(*table[best, :3].tolist())


def run_thresholds(rule: Rule, each: Sequence[Answers], positive: int) -> list[Point]:
    """Return the threshold that each run chooses on nodes of its own, without runs that have no positive node."""
    own = [(one.probabilities[:, positive], one.labels == positive) for one in each]
    return [choose_threshold(rule, scores, truth) for scores, truth in own if truth.any()]


def point_at(threshold: float, scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> Point:
    """Return precision and recall of a threshold; precision is 0 if no node reaches it."""
    reached = scores >= threshold
    hits = float((reached & positive).sum())
    return Point(threshold, hits / max(1, reached.sum()), hits / max(1, positive.sum()))
