"""Evidence: what short trainings of MLP, GCN and GAT on the same splits and seeds say of edges, by validation alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from torch import nn

from nlgnn.errors import NlgnnError
from nlgnn.experiments.compare import spread
from nlgnn.experiments.interval import Interval, paired_interval
from nlgnn.experiments.section import Rows, Section
from nlgnn.experiments.verdict import better_gnn
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import adjusted_homophily_among
from nlgnn.graph.splits import Split
from nlgnn.nn import GAT, GCN, MLP, DirGCN
from nlgnn.training.fit import Setting, fit_settings
from nlgnn.training.recipe import Recipe

FEWEST_SPLITS, MOST_SPLITS = 5, 10
# Short, so that ten thousand nodes take a minute or two; longer trainings gave the same differences.
SHORT = {"features": "unit-l2", "epochs": 60, "lr": 0.05, "stopping": "patience-either", "patience": 20}
HIDDEN, HEADS, HEAD_WIDTH, DROPOUT = 48, 8, 8, 0.5

BOTH_WAYS, APART = "all", "both, apart"
OUTGOING_SHARES = {"out": 1.0, "in": 0.0, APART: 0.5}

Figures = tuple[float | None, ...]  # one a run; None where it failed


@dataclass(frozen=True)
class Evidence:
    """Best validation figures in percent of each run: of mlp, gcn and gat, and by the direction of edges, if any.

    `adjusted_homophily` is that of the labels which training and validation show, mean over the splits.
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
        return _means(self.validation)

    @property
    def difference(self) -> Interval | None:
        """The better graph model minus MLP."""
        return _difference(self.validation)

    @property
    def direction(self) -> Interval | None:
        """The best way to follow the direction of edges, minus edges taken both ways."""
        if not self.by_direction:
            return None
        means = _means(self.by_direction)
        best = max((name for name in means if name != BOTH_WAYS), key=means.__getitem__)
        return paired_interval(self.by_direction[best], self.by_direction[BOTH_WAYS])

    def words_of_direction(self, chosen: str) -> str:
        """A hint, where following the direction of edges clearly helps, and more than what was chosen without it."""
        if not self.by_direction:
            return ""
        ahead = paired_interval(self.by_direction[APART], self.by_direction[BOTH_WAYS])
        if ahead is None or not ahead.is_above_zero:
            return ""
        reached, without = _means(self.by_direction)[APART], self.means[chosen]
        if reached <= without:
            return ""
        return (
            f"Edges have a direction, and it helps: dirgcn, which follows it, reaches {reached:.1f} % in validation, "
            f"{chosen} {without:.1f} %. Try nl-dirgcn as well."
        )

    def sections(self) -> list[Section]:
        how = (
            f"Best validation {self.metric} over the epochs of a run, which is optimistic, about alike for all: "
            f"mean ± sample standard deviation over {self.runs} runs on {self.splits} "
            f"split{'s' * (self.splits > 1)} of protocol {self.protocol}. "
            "Differences are paired over splits and seeds, with 95 % t-intervals, which are rather too narrow: the "
            "better of gcn and gat is picked by the same figures, and looked at up to six times."
        )
        sections = [Section("Do neighbours help?", self._rows("model", self.validation, "mlp"), how)]
        if self.by_direction:
            words = "One dirgcn, which sees all neighbours, or those that edges lead to or come from. As above."
            rows = self._rows("neighbours", self.by_direction, BOTH_WAYS)
            sections.append(Section("Does the direction of edges help?", rows, words, _direction(self.direction)))
        return sections

    def _rows(self, what: str, compared: dict[str, Figures], base: str) -> Rows:
        return [
            {
                what: name,
                f"validation {self.metric} %": str(spread([one for one in figures if one is not None]) or "–"),
                f"minus {base}": "" if name == base else str(paired_interval(figures, compared[base]) or "–"),
            }
            for name, figures in compared.items()
        ]


def gather(graph: Graph, splits: Sequence[Split], metric: str, progress: bool = True) -> Evidence:
    """Train on five splits, then on one more at a time until the difference is clear or none is left."""
    sizes = graph.num_features, graph.num_classes
    models: dict[str, Callable[[], nn.Module]] = {
        "mlp": partial(MLP, sizes[0], HIDDEN, sizes[1], dropout=DROPOUT),
        "gcn": partial(GCN, sizes[0], HIDDEN, sizes[1], dropout=DROPOUT),
        "gat": partial(GAT, sizes[0], HEAD_WIDTH, sizes[1], heads=HEADS, dropout=DROPOUT),
    }
    validation: dict[str, Figures] = dict.fromkeys(models, ())
    done = 0
    while done < len(splits) and (done < FEWEST_SPLITS or not _is_clear(_difference(validation))):
        now = splits[done : max(done + 1, FEWEST_SPLITS)]
        recipe = Recipe(**SHORT, metric=metric, seed=done)  # run r of all draws from seed r, as in one training of all
        settings = [(model, recipe) for model in models.values()]
        for name, figures in zip(models, _train(settings, graph, now, progress), strict=True):
            validation[name] += figures
        done += len(now)
    used = list(dict.fromkeys(splits[:done]))
    return Evidence(
        protocol=splits[0].protocol,
        splits=len(used),
        runs=done,
        metric=metric,
        adjusted_homophily=fmean(adjusted_homophily_among(graph, split.train | split.val) for split in used),
        validation=validation,
        by_direction=_by_direction(graph, splits[:done], metric, progress)
        if graph.directed and graph.num_edges
        else {},
    )


def _by_direction(graph: Graph, splits: Sequence[Split], metric: str, progress: bool) -> dict[str, Figures]:
    # With what its authors found to matter: every layer is read out, and rows are of one length.
    model = partial(
        DirGCN,
        graph.num_features,
        HIDDEN,
        graph.num_classes,
        jumping_knowledge="cat",
        normalise=True,
        dropout=DROPOUT,
    )
    recipe = Recipe(**SHORT, metric=metric)
    undirected = _train(
        [(partial(model, outgoing_share=1.0), recipe)], replace(graph, directed=False), splits, progress
    )
    settings = [(partial(model, outgoing_share=share), recipe) for share in OUTGOING_SHARES.values()]
    directed = _train(settings, graph, splits, progress)
    return {BOTH_WAYS: undirected[0], **dict(zip(OUTGOING_SHARES, directed, strict=True))}


def _train(settings: Sequence[Setting], graph: Graph, splits: Sequence[Split], progress: bool) -> list[Figures]:
    return [
        tuple(run.val.get(recipe.metric) for run in runs)
        for (_, recipe), runs in zip(settings, fit_settings(settings, graph, splits, progress=progress), strict=True)
    ]


def _means(validation: dict[str, Figures]) -> dict[str, float]:
    good = {name: [figure for figure in figures if figure is not None] for name, figures in validation.items()}
    for name, figures in good.items():
        if not figures:
            raise NlgnnError(f"every run of {name} failed: its loss became infinite.", "Look at the features.")
    return {name: fmean(figures) for name, figures in good.items()}


def _difference(validation: dict[str, Figures]) -> Interval | None:
    return paired_interval(validation[better_gnn(_means(validation))], validation["mlp"])


def _is_clear(difference: Interval | None) -> bool:
    return difference is not None and difference.excludes_zero


def _direction(interval: Interval | None) -> str:
    if interval is None or not interval.excludes_zero:
        return "Whether it helps cannot be told on this evidence."
    if interval.mean < 0:
        return "It does not: edges taken both ways serve better."
    return "It does, in its best form here: try dirgcn and nl-dirgcn as well."
