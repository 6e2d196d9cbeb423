"""The verdict: from a few numbers to a category, what it means in words, and the local model that goes with it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from nlgnn.experiments.interval import Interval

Category = Literal["assortative", "first", "second", "undecided"]

ASSORTATIVE_FROM = 0.3  # adjusted homophily
NON_LOCAL = {"mlp": "nlmlp", "gcn": "nlgcn", "gat": "nlgat"}
TITLES: Mapping[Category, str] = {
    "assortative": "assortative",
    "first": "disassortative, first category",
    "second": "disassortative, second category",
    "undecided": "undecided on this evidence",
}


class Verdict(NamedTuple):
    """`local` is the local model to start from; `confidence` says what the category rests on."""

    category: Category
    words: str
    confidence: str
    local: str

    @property
    def title(self) -> str:
        return TITLES[self.category]

    @property
    def non_local(self) -> str:
        return NON_LOCAL[self.local]


def better_gnn(means: Mapping[str, float]) -> str:
    """The better of the two graph models; gcn where they are level."""
    return "gat" if means["gat"] > means["gcn"] else "gcn"


def judge(
    adjusted_homophily: float, means: Mapping[str, float], difference: Interval | None, has_edges: bool = True
) -> Verdict:
    """Which kind of graph it is.

    Args:
        adjusted_homophily: of the labels that training and validation show.
        means: mean best validation figure of mlp, gcn and gat.
        difference: the better graph model minus mlp, paired; None where there are not two pairs.
        has_edges: whether any two nodes are joined.
    """
    gnn = better_gnn(means)
    best = max(("mlp", gnn), key=means.__getitem__)
    agreement = f"adjusted homophily {adjusted_homophily:.2f}"
    confidence = _confidence(gnn, difference)
    if not has_edges:
        return Verdict("undecided", "There are no edges: features are all that a model can use.", confidence, "mlp")
    decided = difference is not None and difference.excludes_zero
    ahead = difference.mean if difference is not None else 0.0
    if decided and ahead < 0:
        although = f", although neighbours agree ({agreement})" if adjusted_homophily >= ASSORTATIVE_FROM else ""
        words = f"Neighbours are noise{although}: mlp, which sees no edge, is ahead of {gnn}, the better graph model."
        return Verdict("first", words, confidence, "mlp")
    if adjusted_homophily >= ASSORTATIVE_FROM:
        words = f"Neighbours agree ({agreement}), and graph models are not below mlp. A local model is enough."
        return Verdict("assortative", words, confidence, best)
    if decided:
        words = (
            f"Neighbours disagree ({agreement}), and yet they help: {gnn} is ahead of mlp. "
            "Distant nodes may help as well."
        )
        return Verdict("second", words, confidence, gnn)
    words = f"Neighbours disagree ({agreement}), and whether they help cannot be told: {gnn} and mlp are too close."
    return Verdict("undecided", words, confidence, best)


def _confidence(gnn: str, difference: Interval | None) -> str:
    if difference is None:
        return "Too few runs succeeded for an interval."
    zero = "excludes zero" if difference.excludes_zero else "holds zero"
    return (
        f"{gnn} − mlp: {difference.mean:+.1f} points of validation, 95 % interval {difference.low:+.1f} to "
        f"{difference.high:+.1f} over {difference.pairs} paired runs, which {zero}. It is rather too narrow: {gnn} is "
        "the better of two by the same figures, and they are looked at up to six times."
    )


def next_step(verdict: Verdict, graph: Sequence[str], splits: str | None, order_helps: bool = True) -> str:
    """What to run next: a command, where the graph has words on the command line, else a line of Python.

    `splits` is None for the usual ones. `order_helps` is false where the non-local model was looked at, and not clearly
    ahead of its local part: then it has to earn its place.
    """
    disassortative = verdict.category in ("first", "second")
    controls = disassortative and order_helps
    model = verdict.non_local if controls else verdict.local
    if not graph:
        return f'nlgnn.fit("{model}", graph' + (f', "{splits}")' if splits else ")")
    model = "auto" if verdict.category == "undecided" or (disassortative and not order_helps) else model
    command = f"nlgnn train {shlex.join(graph)} --model {model}"
    return command + (f" --splits {splits}" if splits else "") + " --controls" * controls
