"""Short trainings that tell by validation whether neighbours, their direction and a sorted order help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from torch import nn

from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import adjusted_homophily_among
from nlgnn.graph.splits import Split
from nlgnn.models.build import configure
from nlgnn.nn import GAT, GCN, MLP, DirGCN
from nlgnn.report.table import Rows, Section
from nlgnn.selection.controls import with_controls
from nlgnn.selection.statistics import Interval, compared_rows, is_clear, paired_interval, spread
from nlgnn.training.fit import fit_settings
from nlgnn.training.recipe import Recipe, metric_heading
from nlgnn.training.replica import Run

FEWEST_SPLITS, MOST_SPLITS = 5, 10
# Short, so that ten thousand nodes take a minute or two; longer trainings gave the same differences.
SHORT = {"features": "unit-l2", "epochs": 60, "lr": 0.05, "stopping": "patience-either", "patience": 20}
HIDDEN, HEADS, HEAD_WIDTH, DROPOUT = 48, 8, 8, 0.5

BOTH_WAYS, APART = "all", "both, apart"
OUTGOING_SHARES = {"out": 1.0, "in": 0.0, APART: 0.5}

SMALL_GRAPH, SEEDS = 3000, 3  # Graphs of at most SMALL_GRAPH nodes are trained with several seeds per split.
ORDER_PRESET = "robust"

Figures = tuple[float | None, ...]  # One per run; None stands for a failed one.


@dataclass(frozen=True)
class Evidence:
    """Best validation figures of short trainings, in percent.

    Attributes:
        protocol: Name of the protocol that made the splits.
        splits: Number of distinct splits.
        runs: Number of runs of each model.
        metric: Name of the evaluation metric.
        adjusted_homophily: Adjusted homophily of the labels of training and validation nodes, mean over splits.
        validation: Figures of mlp, gcn and gat.
        by_direction: Figures by the direction of edges; empty if edges have none.
    """

    protocol: str
    splits: int
    runs: int
    metric: str
    adjusted_homophily: float
    validation: dict[str, Figures]
    by_direction: dict[str, Figures]

    @property
    def means(self) -> dict[str, float]:
        """Return the mean figure of mlp, gcn and gat."""
        return _means(self.validation)

    @property
    def difference(self) -> Interval | None:
        """Return the better graph model minus mlp."""
        return _graph_models_minus_mlp(self.validation)

    @property
    def direction(self) -> Interval | None:
        """Return separate directions minus undirected edges, or None if edges have no direction."""
        figures = self.by_direction
        return paired_interval(figures[APART], figures[BOTH_WAYS]) if figures else None

    def words_of_direction(self, chosen: str) -> str:
        """Return a hint if following the direction of edges clearly helps and beats the chosen local model."""
        if self.direction is None or not self.direction.is_above_zero:
            return ""
        reached, without = _means(self.by_direction)[APART], self.means[chosen]
        if reached <= without:
            return ""
        return (
            f"The direction of edges helps: dirgcn, which follows it, reaches {reached:.1f} % in validation, "
            f"{chosen} {without:.1f} %. Try nl-dirgcn as well."
        )

    def sections(self) -> list[Section]:
        """Return the figures as one or two tables."""
        how = (
            f"Best validation {self.metric} over the epochs of a run, which is optimistic for all models alike: "
            f"mean ± sample standard deviation over {self.runs} runs on {self.splits} "
            f"split{'s' * (self.splits > 1)} of protocol {self.protocol}. "
            "Differences are paired over splits and seeds, with 95 % t-intervals, which are slightly too narrow: the "
            "better of gcn and gat is picked by the same figures, which are tested up to six times."
        )
        sections = [Section("Short trainings", self._rows("model", self.validation, "mlp"), how)]
        if self.by_direction:
            words = "A dirgcn that sees all neighbours, or those that edges lead to or come from. As above."
            rows = self._rows("neighbours", self.by_direction, BOTH_WAYS)
            sections.append(Section("Direction of edges", rows, words))
        return sections

    def _rows(self, what: str, compared: dict[str, Figures], base: str) -> Rows:
        differences = minus(compared, base)
        return compared_rows(what, f"validation {metric_heading(self.metric)}", compared, f"minus {base}", differences)


def minus(compared: Mapping[str, Figures], base: str) -> dict[str, Interval | None]:
    """Return every other model minus the base, paired over runs."""
    return {name: paired_interval(own, compared[base]) for name, own in compared.items() if name != base}


def gather(graph: Graph, splits: Sequence[Split], metric: str, progress: bool = True) -> Evidence:
    """Train mlp, gcn and gat on five splits, then on one more at a time until the difference is clear."""
    sizes = graph.num_features, graph.num_classes
    models: dict[str, Callable[[], nn.Module]] = {
        "mlp": partial(MLP, sizes[0], HIDDEN, sizes[1], dropout=DROPOUT),
        "gcn": partial(GCN, sizes[0], HIDDEN, sizes[1], dropout=DROPOUT),
        "gat": partial(GAT, sizes[0], HEAD_WIDTH, sizes[1], heads=HEADS, dropout=DROPOUT),
    }
    validation: dict[str, Figures] = dict.fromkeys(models, ())
    done = 0
    while done < len(splits) and (done < FEWEST_SPLITS or not is_clear(_graph_models_minus_mlp(validation))):
        now = splits[done : max(done + 1, FEWEST_SPLITS)]
        # Run r always has seed r, as if all runs had been trained at once.
        recipe = Recipe(**SHORT, metric=metric, seed=done)
        settings = [(model, recipe) for model in models.values()]
        runs = fit_settings(settings, graph, now, progress=progress)
        for name, figures in zip(models, _figures(runs, metric), strict=True):
            validation[name] += figures
        done += len(now)
    used = list(dict.fromkeys(splits[:done]))
    has_direction = graph.directed and graph.num_edges > 0
    return Evidence(
        protocol=splits[0].protocol,
        splits=len(used),
        runs=done,
        metric=metric,
        adjusted_homophily=fmean(adjusted_homophily_among(graph, split.train | split.val) for split in used),
        validation=validation,
        by_direction=_by_direction(graph, splits[:done], metric, progress) if has_direction else {},
    )


def _by_direction(graph: Graph, splits: Sequence[Split], metric: str, progress: bool) -> dict[str, Figures]:
    sizes = graph.num_features, HIDDEN, graph.num_classes
    # The options that its authors found to matter.
    model = partial(DirGCN, *sizes, jumping="cat", row_norm=True, dropout=DROPOUT)
    recipe = Recipe(**SHORT, metric=metric)
    undirected = replace(graph, directed=False)
    setting = partial(model, alpha=1.0), recipe
    both_ways = _figures(fit_settings([setting], undirected, splits, progress=progress), metric)
    settings = [(partial(model, alpha=share), recipe) for share in OUTGOING_SHARES.values()]
    directed = _figures(fit_settings(settings, graph, splits, progress=progress), metric)
    return {BOTH_WAYS: both_ways[0], **dict(zip(OUTGOING_SHARES, directed, strict=True))}


def _figures(runs: Sequence[Sequence[Run]], metric: str) -> list[Figures]:
    """Return the validation figures of each setting."""
    return [tuple(run.val.get(metric) for run in of_setting) for of_setting in runs]


def better_graph_model(means: Mapping[str, float]) -> str:
    """Return the better of gcn and gat; gcn if they are equal."""
    return "gat" if means["gat"] > means["gcn"] else "gcn"


def _means(validation: dict[str, Figures]) -> dict[str, float]:
    spreads = {name: spread(figures) for name, figures in validation.items()}
    for name, found in spreads.items():
        if found is None:
            raise NlgnnError(f"every run of {name} failed: its loss became infinite.", "Look at the features.")
    return {name: found.mean for name, found in spreads.items() if found}


def _graph_models_minus_mlp(validation: dict[str, Figures]) -> Interval | None:
    return paired_interval(validation[better_graph_model(_means(validation))], validation["mlp"])


@dataclass(frozen=True)
class OrderEvidence:
    """Best validation figures of a non-local model, its local part and its controls, in percent.

    Attributes:
        model: Name of the non-local model.
        protocol: Name of the protocol that made the splits.
        splits: Number of distinct splits. If a protocol has fewer splits than runs, splits are used again with other
            seeds.
        seeds: Number of seeds per run.
        metric: Name of the evaluation metric.
        validation: Figures of each model, the non-local one first. The figure of a run is the mean over its seeds.
    """

    model: str
    protocol: str
    splits: int
    seeds: int
    metric: str
    validation: dict[str, Figures]

    @property
    def differences(self) -> dict[str, Interval | None]:
        """Return the model minus its local part and minus each of its controls."""
        (_, own), *others = self.validation.items()
        return {label: paired_interval(own, figures) for label, figures in others}

    @property
    def is_ahead_of_local(self) -> bool:
        """Return True if the model is clearly ahead of its local part."""
        local = next(iter(self.differences.values()))
        return local is not None and local.is_above_zero

    @property
    def words(self) -> str:
        """Return the conclusion in one or two sentences."""
        differences = {label: found for label, found in self.differences.items() if found is not None}
        if len(differences) < len(self.differences):
            return "Too few runs succeeded to tell."
        local, *controls = differences
        missed = [label.removeprefix(f"{self.model}, ") for label in controls if not differences[label].is_above_zero]
        words = "The order matters: the model is clearly ahead of its controls."
        if missed:
            words = f"No evidence that the order matters: the model is not clearly ahead of {' or '.join(missed)}."
        own = differences[local]
        ahead = "ahead of" if own.is_above_zero else "below" if own.is_below_zero else "level with"
        return f"{words} It is {ahead} its local part."

    def section(self) -> Section:
        """Return the figures as a table."""
        heading = f"validation {metric_heading(self.metric)}"
        rows = compared_rows("model", heading, self.validation, f"{self.model} minus it", self.differences)
        runs = len(self.validation[self.model])
        caption = (
            f"Best validation {self.metric} over the epochs of a run, preset {ORDER_PRESET}, short trainings: {runs} "
            f"runs on {self.splits} splits of protocol {self.protocol}, each the mean of {self.seeds} "
            f"seed{'s' * (self.seeds > 1)}. Differences are paired over runs, with 95 % t-intervals, which are "
            "slightly too narrow, since splits overlap."
        )
        return Section("Order and its controls", rows, caption, self.words)


def compare_orders(graph: Graph, model: str, splits: Sequence[Split], metric: str, progress: bool) -> OrderEvidence:
    """Train a non-local model, its local part and its controls on the same splits and seeds."""
    seeds = SEEDS if graph.num_nodes <= SMALL_GRAPH else 1
    hidden = HEAD_WIDTH if model == "nlgat" else HIDDEN
    # Every option that published settings may change is given, so that the name of a graph changes nothing.
    options = {**SHORT, "metric": metric, "hidden": hidden, "dropout": DROPOUT, "weight_decay": 5e-4, "kernel_size": 5}
    variants = with_controls(model, options)
    settings = [
        configure(variant.system, graph, ORDER_PRESET, **variant.options, seed=seed * len(splits))
        for variant in variants
        for seed in range(seeds)
    ]
    figures = _figures(fit_settings(settings, graph, splits, progress=progress), metric)
    validation = {
        variant.label: tuple(map(_mean_of_seeds, *figures[number * seeds : (number + 1) * seeds]))
        for number, variant in enumerate(variants)
    }
    return OrderEvidence(model, splits[0].protocol, len(set(splits)), seeds, metric, validation)


def _mean_of_seeds(*figures: float | None) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return fmean(known) if len(known) == len(figures) else None
