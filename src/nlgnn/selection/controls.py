"""Controls of non-local models, and the comparison of any models on the same splits and seeds.

A non-local result is never shown alone. It is compared with its local part, kernel 1 and a random order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.models.build import default_metric
from nlgnn.models.options import model_options, recipe_options
from nlgnn.models.registry import get_system
from nlgnn.report.table import Section, markdown_table
from nlgnn.selection.statistics import compared_rows, paired_interval, spread
from nlgnn.shallow.base import Factory
from nlgnn.training.fit import fit_settings
from nlgnn.training.preflight import Setting, check_graph, setting_of
from nlgnn.training.recipe import Recipe, metric_heading
from nlgnn.training.replica import Run

CONTROLS: dict[str, dict[str, Any]] = {"kernel 1": {"kernel_size": 1}, "random order": {"order": "random"}}
FROZEN = {"frozen space": {"frozen": True}}  # Only a learned order can be frozen.


class Variant(NamedTuple):
    """Name of a model and its options."""

    system: str
    options: dict[str, Any]

    @property
    def control(self) -> str | None:
        """Return the names of the controls that the options make of the model, or None."""
        names = [name for name, changed in (CONTROLS | FROZEN).items() if changed.items() <= self.options.items()]
        return ", ".join(names) or None

    @property
    def label(self) -> str:
        """Return the name for tables, which tells controls and learned orders apart."""
        made = self.control or ("learned order" if self.options.get("order") == "learned" else None)
        return f"{self.system}, {made}" if made else self.system

    @property
    def slug(self) -> str:
        """Return the name for folders."""
        return self.label.replace(", ", "-").replace(" ", "-")


def with_controls(system: str, options: dict[str, Any]) -> list[Variant]:
    """Return a model and, if it is non-local, its local part and its controls.

    Example:
        >>> [variant.label for variant in with_controls("nlgcn", {"hidden": 8})]
        ['nlgcn', 'gcn', 'nlgcn, kernel 1', 'nlgcn, random order']
    """
    name, local = get_system(system).name, get_system(system).local
    variants = [Variant(name, options)]
    if local is not None:
        variants.append(_part(local, options))
        controls = [Variant(name, {**options, **changed}) for changed in _controls(name, options).values()]
        variants += [control for control in controls if control not in variants]
    return variants


def _controls(system: str, options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options that each control changes. Votes have no kernel, and a learned space can be frozen."""
    votes = get_system(system).kind == "vote"
    controls = {"random order": CONTROLS["random order"]} if votes else CONTROLS
    learned = options.get("order", "learned" if votes else "score") == "learned"
    return controls | FROZEN if learned else controls


def with_references(system: str, options: dict[str, Any]) -> list[Variant]:
    """Return a model with its controls and an MLP, which sees no edges, unless the MLP is its local part."""
    variants = with_controls(system, options)
    if len(variants) > 1 and variants[1].system != "mlp":
        variants.append(_part("mlp", options))
    return variants


def _part(system: str, options: dict[str, Any]) -> Variant:
    """Return another model with those of the options that it knows."""
    return Variant(system, known_options(system, options))


def known_options(system: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the options that a model or its training has."""
    known = set(model_options(get_system(system))) | recipe_options(get_system(system))
    return {key: value for key, value in options.items() if key in known}


def selection_words(rule: str, metric: str) -> str:
    """Describe the epoch that a selection rule keeps."""
    return {
        "first-best": f"the first epoch with the best validation {metric}",
        "last-best": f"the last epoch with the best validation {metric}",
        "lowest-loss": "the epoch with the lowest validation loss",
        "last-both": f"the last epoch with validation {metric} and loss both as good as ever before",
    }[rule]


def figure_words(recipe: Recipe, runs: Sequence[Run]) -> str:
    """Describe the epoch that figures are of; return nothing where there are no epochs."""
    words = f", figures of {selection_words(recipe.selection, recipe.metric)}"
    return words if any(run.epochs for run in runs) else ""


@dataclass(frozen=True)
class Comparison:
    """Several models trained on the same splits and seeds.

    Attributes:
        graph: Name of the graph.
        settings: Factory and recipe of each model, by name.
        runs: Runs of each model, by name. Differences are the first model minus each other model.
    """

    graph: str
    settings: Mapping[str, Setting]
    runs: Mapping[str, Sequence[Run]]

    def sections(self) -> list[Section]:
        """Return the comparison as a table."""
        first, (_, recipe) = next(iter(self.settings.items()))
        metric = recipe.metric
        tests = {name: [run.test.get(metric) for run in runs] for name, runs in self.runs.items()}
        differences = {name: paired_interval(tests[first], test) for name, test in tests.items() if name != first}
        validation = {
            name: str(spread([run.val.get(metric) for run in runs]) or "–") for name, runs in self.runs.items()
        }
        rows = [
            {"model": row["model"], f"validation {metric_heading(metric)}": validation[row["model"]], **row}
            for row in compared_rows("model", f"test {metric_heading(metric)}", tests, f"{first} minus it", differences)
        ]
        runs, all_runs = self.runs[first], [run for of_model in self.runs.values() for run in of_model]
        failed = sum(run.failure is not None for run in all_runs)
        caption = (
            f"Graph {self.graph}. Mean ± sample standard deviation over {len(runs)} run{'s' * (len(runs) != 1)}, one "
            f"per split, protocol {runs[0].protocol}{figure_words(recipe, all_runs)}. "
            "Differences of test figures are paired over splits and seeds, with 95 % t-intervals, which are slightly "
            "too narrow where splits overlap."
        ) + f" Failed runs: {failed}." * bool(failed)
        return [Section(f"{first} compared with other models", rows, caption)]

    def __str__(self) -> str:
        (section,) = self.sections()
        return f"{markdown_table(section.rows)}\n{section.caption}"


def compare(
    models: Mapping[str, str | Factory],
    graph: Graph,
    splits: str | Split | Sequence[Split] | None = None,
    recipe: Recipe | None = None,
    *,
    progress: bool = True,
) -> Comparison:
    """Train several models on the same splits, with the same seeds, metric and selection rule.

    Args:
        models: The models by the name that tables show. Each is a factory of fresh models or the name of a
            registered model. Differences are computed between the first model and each other model.
        graph: The graph, as for `fit`.
        splits: The splits, as for `fit`.
        recipe: How to train. Settings that it does not give are those of each named model, and those that a model does
            not have are passed over.
        progress: Whether to draw a progress bar.

    Returns:
        The comparison; `print` shows it as a table.

    Raises:
        OptionError: If there are no models, or a model does not fit the graph.

    Example:
        >>> from nlgnn import Recipe, compare, load_graph
        >>> graph = load_graph("mushroom-body")
        >>> found = compare({"gcn": "gcn", "mlp": "mlp"}, graph, "random-60", Recipe(epochs=2), progress=False)
        >>> list(found.runs)
        ['gcn', 'mlp']
    """
    if not isinstance(models, Mapping) or not models:
        raise OptionError("there are no models to compare.", 'Give some: {"mine": lambda: MyModel(...), "gcn": "gcn"}.')
    check_graph(graph)
    if recipe is None or isinstance(recipe, Recipe):  # `setting_of` refuses anything else.
        own = recipe or Recipe()
        metric = own.metric if "metric" in own.model_fields_set else default_metric(graph)
        # A copy with these two counts them as given, so that no named model replaces them.
        recipe = own.model_copy(update={"metric": metric, "selection": own.selection})
    settings = {name: setting_of(model, graph, recipe, shared=True) for name, model in models.items()}
    runs = fit_settings(list(settings.values()), graph, splits, progress=progress)
    return Comparison(graph.name, settings, dict(zip(models, runs, strict=True)))
