"""What the paper claims, and what we see of it: each claim is a question to the measured cells, answered in words."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from nlgnn.experiments.accuracy import ASSORTATIVE, FILTERED, FIRST, SECOND
from nlgnn.experiments.beside import Beside
from nlgnn.experiments.framework import LOCAL
from nlgnn.experiments.interval import tally
from nlgnn.experiments.measured import OPEN
from nlgnn.experiments.section import Section


class Findings(NamedTuple):
    """Non-local cells with what goes with them, open ones too, and mean validation accuracy by system and dataset."""

    beside: Sequence[Beside]
    validation: dict[tuple[str, str], float]


def claim_sections(findings: Findings, protocol: str) -> list[Section]:
    disassortative = [one for one in findings.beside if one.dataset in (*FIRST, *SECOND, *FILTERED)]
    assortative = [one for one in findings.beside if one.dataset in ASSORTATIVE]
    answers = [
        _features_alone_win(findings),
        _neighbours_win(findings),
        _helps("The non-local step improves on its local part on disassortative graphs", disassortative, "local"),
        _helps("It costs nothing on assortative graphs (not clearly below)", assortative, "local", harmless=True),
        _helps("Gain by seeing other nodes at all (not claimed in this form)", disassortative, "kernel 1"),
        _helps("Gain by the learned order over any order (implied by sorting)", disassortative, "random order"),
        _order_learns(findings),
    ]
    caption = (
        f"From the cells measured so far, protocol {protocol}. Clearly: the 95 % t-interval of the paired differences "
        "excludes zero. Many differences are looked at, and splits overlap: more than one in twenty may look clear by "
        "chance."
    )
    return [Section("What held and what did not", answers, caption, text_columns=3)]


def _answer(claim: str, seen: str, held: str) -> dict[str, str]:
    return {"claim": claim, "what we see": seen, "held here": held}


def _features_alone_win(findings: Findings) -> dict[str, str]:
    claim = "First category: by validation MLP is ahead of GCN and GAT (" + ", ".join(FIRST) + ")"
    return _by_validation(findings, claim, FIRST, neighbours_help=False)


def _neighbours_win(findings: Findings) -> dict[str, str]:
    claim = "Second category: by validation GCN or GAT is ahead of MLP (" + ", ".join(SECOND) + ")"
    return _by_validation(findings, claim, SECOND, neighbours_help=True)


def _by_validation(findings: Findings, claim: str, datasets: Sequence[str], neighbours_help: bool) -> dict[str, str]:
    seen, agree = [], []
    for dataset in datasets:
        known = {system: value for system in LOCAL if (value := findings.validation.get((system, dataset)))}
        graph_models = [value for system, value in known.items() if system != "mlp"]
        if "mlp" in known and graph_models:
            best = max(graph_models)
            agree.append(best > known["mlp"] if neighbours_help else best < known["mlp"])
            seen.append(f"{dataset}: " + ", ".join(f"{system} {value:.1f}" for system, value in known.items()))
    return _answer(claim, "; ".join(seen) or OPEN, _in_how_many(sum(agree), len(agree), len(datasets) - len(agree)))


def _helps(claim: str, beside: Sequence[Beside], other: str, harmless: bool = False) -> dict[str, str]:
    intervals = [(one, one.interval(other)) for one in beside]
    counted = tally([interval for _, interval in intervals])
    clear = [
        f"{one.system} on {one.dataset} {interval}"
        for one, interval in intervals
        if interval and interval.excludes_zero
    ]
    seen = f"minus {other}: {counted}" + (f" ({'; '.join(clear)})" if clear else "")
    agreeing = counted.known - counted.below if harmless else counted.above
    return _answer(claim, seen if counted.known else OPEN, _in_how_many(agreeing, counted.known, counted.open))


def _order_learns(findings: Findings) -> dict[str, str]:
    claim = "Homophily of the re-connected graph exceeds that of the graph"
    levels = [one.main.result["homophily"] for one in findings.beside if one.main.result]
    if not levels:
        return _answer(claim, OPEN, OPEN)
    above_graph, above_chance, above_start = (
        sum(fmean(level["after"]) > threshold for level, threshold in zip(levels, thresholds, strict=True))
        for thresholds in (
            [level["graph"] for level in levels],
            [level["chance"] for level in levels],
            [fmean(level["before"]) for level in levels],
        )
    )
    seen = (
        f"of {len(levels)} cells {above_graph} above H(G), {above_chance} above chance, {above_start} above the "
        "untrained model"
    )
    return _answer(claim, seen, _in_how_many(above_graph, len(levels), len(findings.beside) - len(levels)))


def _in_how_many(agreeing: int, known: int, still_open: int) -> str:
    if not known:
        return OPEN
    seen = f"in {agreeing} of {known}" if agreeing else f"in none of {known}"
    return seen + (f", {still_open} open" if still_open else "")
