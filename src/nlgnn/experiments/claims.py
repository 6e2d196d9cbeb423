"""What the paper claims, and what we see of it: each claim is a question to the measured cells, answered in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nlgnn.experiments.accuracy import ASSORTATIVE, FILTERED, FIRST, SECOND
from nlgnn.experiments.beside import Beside
from nlgnn.experiments.compare import Spread
from nlgnn.experiments.measured import OPEN
from nlgnn.experiments.section import Rows, Section

CLEAR = 2  # standard errors


class Evidence(NamedTuple):
    """Non-local cells with what goes with them, and mean validation accuracy by system and dataset."""

    beside: Sequence[Beside]
    validation: dict[tuple[str, str], float]
    test: dict[tuple[str, str], Spread]


class Tally(NamedTuple):
    """How many differences are clearly above zero, clearly below, or neither."""

    above: int
    below: int
    neither: int

    def __str__(self) -> str:
        total = sum(self)
        return f"of {total} cells {self.above} clearly above, {self.below} clearly below, {self.neither} neither"


def tally(differences: Sequence[Spread | None]) -> Tally:
    known = [one for one in differences if one is not None and one.std is not None]
    above = sum(one.mean > CLEAR * (one.std or 0.0) for one in known)
    below = sum(one.mean < -CLEAR * (one.std or 0.0) for one in known)
    return Tally(above, below, len(known) - above - below)


def claim_sections(evidence: Evidence, protocol: str) -> list[Section]:
    disassortative = [one for one in evidence.beside if one.dataset in (*FIRST, *SECOND, *FILTERED)]
    assortative = [one for one in evidence.beside if one.dataset in ASSORTATIVE]
    answers = [
        _features_alone_win(evidence),
        _neighbours_win(evidence),
        _helps("The non-local step improves on its local part on disassortative graphs", disassortative, "local"),
        _helps("It costs nothing on assortative graphs", assortative, "local", harmless=True),
        _helps("Gain by seeing other nodes at all (not claimed in this form)", disassortative, "kernel 1"),
        _helps("Gain by the learned order over any order (implied by sorting)", disassortative, "random order"),
        _order_learns(evidence),
    ]
    caption = (
        f"From the cells measured so far, protocol {protocol}. Clearly: more than {CLEAR} standard errors from zero, "
        "paired over splits and seeds. Many differences are looked at, so one in twenty may look clear by chance."
    )
    return [Section("What held and what did not", answers, caption, text_columns=3)]


def _answer(claim: str, seen: str, held: str) -> dict[str, str]:
    return {"claim": claim, "what we see": seen, "held here": held}


def _features_alone_win(evidence: Evidence) -> dict[str, str]:
    claim = "First category: by validation MLP is ahead of GCN and GAT (" + ", ".join(FIRST) + ")"
    return _by_validation(evidence, claim, FIRST, local_wins=False)


def _neighbours_win(evidence: Evidence) -> dict[str, str]:
    claim = "Second category: by validation GCN or GAT is ahead of MLP (" + ", ".join(SECOND) + ")"
    return _by_validation(evidence, claim, SECOND, local_wins=True)


def _by_validation(evidence: Evidence, claim: str, datasets: Sequence[str], local_wins: bool) -> dict[str, str]:
    seen, agree = [], []
    for dataset in datasets:
        mlp = evidence.validation.get(("mlp", dataset))
        others = [value for system in ("gcn", "gat") if (value := evidence.validation.get((system, dataset)))]
        if mlp is None or not others:
            continue
        agree.append((max(others) > mlp) == local_wins)
        seen.append(f"{dataset}: MLP {mlp:.1f}, best GNN {max(others):.1f}")
    if not agree:
        return _answer(claim, OPEN, OPEN)
    return _answer(claim, "; ".join(seen), _word(sum(agree), len(agree)))


def _helps(claim: str, beside: Sequence[Beside], other: str, harmless: bool = False) -> dict[str, str]:
    counted = tally([one.difference(other) for one in beside])
    if not sum(counted):
        return _answer(claim, OPEN, OPEN)
    clear = [
        f"{one.system} on {one.dataset} {difference.mean:+.1f} ({difference.std:.1f})"
        for one in beside
        if (difference := one.difference(other)) and difference.std and abs(difference.mean) > CLEAR * difference.std
    ]
    seen = f"minus {other}: {counted}" + (f" ({'; '.join(clear)})" if clear else "")
    if harmless:
        return _answer(claim, seen, _word(sum(counted) - counted.below, sum(counted)))
    return _answer(claim, seen, _word(counted.above, sum(counted)))


def _order_learns(evidence: Evidence) -> dict[str, str]:
    claim = "Homophily of the re-connected graph exceeds that of the graph"
    levels = [one.main.result["homophily"] for one in evidence.beside if one.main.result]
    if not levels:
        return _answer(claim, OPEN, OPEN)
    above_graph, above_chance, above_start = (
        sum(_mean(level["after"]) > threshold for level, threshold in zip(levels, thresholds, strict=True))
        for thresholds in (
            [level["graph"] for level in levels],
            [level["chance"] for level in levels],
            [_mean(level["before"]) for level in levels],
        )
    )
    seen = (
        f"of {len(levels)} cells {above_graph} above H(G), {above_chance} above chance, {above_start} above the "
        "untrained model"
    )
    return _answer(claim, seen, _word(above_graph, len(levels)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _word(agreeing: int, total: int) -> str:
    if agreeing == total:
        return "yes"
    return "no" if not agreeing else f"in {agreeing} of {total}"


__all__ = ["Evidence", "Rows", "Tally", "claim_sections", "tally"]
