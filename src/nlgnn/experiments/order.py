"""Does the order matter? A non-local model beside its local part, kernel 1 and a random order, by validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from nlgnn.experiments.compare import paired_mean, spread, with_controls
from nlgnn.experiments.evidence import DROPOUT, HEAD_WIDTH, HIDDEN, SHORT, Figures
from nlgnn.experiments.interval import Interval, paired_interval
from nlgnn.experiments.section import Section
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.training.fit import fit_settings
from nlgnn.training.systems import configure

CHEAP_NODES, SEEDS = 3000, 3  # up to so many nodes, each split is trained with so many seeds
PRESET = "robust"


@dataclass(frozen=True)
class OrderEvidence:
    """Best validation figures in percent: for each run of a split, one a seed; those of `model` come first.

    Where a protocol has fewer splits than there are runs, splits come again, with other seeds.
    """

    model: str
    protocol: str
    splits: int
    seeds: int
    metric: str
    validation: dict[str, tuple[Figures, ...]]

    @property
    def differences(self) -> dict[str, Interval | None]:
        """The model minus each of its controls, over the seeds that failed in neither."""
        own, *others = self.validation.values()
        means = [[paired_mean(*figures) for figures in zip(own, other, strict=True)] for other in others]
        intervals = [paired_interval(of_other, [0.0] * len(of_other)) for of_other in means]
        return dict(zip(list(self.validation)[1:], intervals, strict=True))

    @property
    def is_ahead_of_local(self) -> bool:
        local = next(iter(self.differences.values()))
        return local is not None and local.is_above_zero

    @property
    def words(self) -> str:
        local, *controls = self.differences.values()
        if any(interval is None for interval in (local, *controls)):
            return "Too few runs succeeded to tell."
        clear = [interval for interval in controls if interval is not None and interval.is_above_zero]
        if len(clear) == len(controls):
            words = "The order matters on this evidence: the model is ahead of kernel 1 and of a random order."
        elif clear:
            words = "It cannot be told: the model is clearly ahead of one of the two controls only."
        else:
            words = (
                "No evidence that the order matters: the model is not clearly ahead of kernel 1 or of a random order."
            )
        assert local is not None
        ahead = "ahead of" if local.is_above_zero else "below" if local.is_below_zero else "level with"
        return f"{words} It is {ahead} its local part."

    def section(self) -> Section:
        rows = [
            {
                "model": label,
                f"validation {self.metric} %": str(spread(run_means(figures)) or "–"),
                f"{self.model} minus it (se)": _difference(self.differences.get(label)),
                "95 % interval": _interval(self.differences.get(label)),
            }
            for label, figures in self.validation.items()
        ]
        runs = len(self.validation[self.model])
        caption = (
            f"Best validation {self.metric} over the epochs of a run, preset {PRESET}, short trainings: {runs} runs on "
            f"{self.splits} splits of protocol {self.protocol}, each the mean of {self.seeds} "
            f"seed{'s' * (self.seeds > 1)}. Differences are paired over runs and seeds. Splits overlap, so that "
            "intervals are rather too narrow."
        )
        return Section("Does the order matter?", rows, caption, self.words)


def compare_orders(graph: Graph, model: str, splits: Sequence[Split], metric: str, progress: bool) -> OrderEvidence:
    """Train a non-local model and its controls on the same splits and seeds."""
    seeds = SEEDS if graph.num_nodes <= CHEAP_NODES else 1
    hidden = HEAD_WIDTH if model == "nlgat" else HIDDEN
    # All that a dataset's published settings could have another value for: a graph is judged by what it is.
    options = {**SHORT, "metric": metric, "hidden": hidden, "dropout": DROPOUT, "weight_decay": 5e-4, "kernel_size": 5}
    variants = with_controls(model, options)
    settings = [
        configure(variant.system, graph, PRESET, **variant.options, seed=seed * len(splits))
        for variant in variants
        for seed in range(seeds)
    ]
    runs = fit_settings(settings, graph, splits, progress=progress)
    validation = {}
    for number, variant in enumerate(variants):
        of_variant = runs[number * seeds : (number + 1) * seeds]
        by_seed = ([run.val.get(metric) for run in of_seed] for of_seed in of_variant)
        validation[variant.label] = tuple(zip(*by_seed, strict=True))
    return OrderEvidence(model, splits[0].protocol, len(set(splits)), seeds, metric, validation)


def run_means(by_run: Sequence[Figures]) -> list[float]:
    """Of each run the mean over its seeds, of runs that have one."""
    good = [[figure for figure in figures if figure is not None] for figures in by_run]
    return [fmean(figures) for figures in good if figures]


def _difference(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.mean:+.1f} ({interval.error:.1f})"


def _interval(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low:+.1f} to {interval.high:+.1f}"
