"""Models of your own side by side, on the same splits and seeds, with paired differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from nlgnn.errors import OptionError
from nlgnn.experiments.compare import selection_words, spread
from nlgnn.experiments.interval import paired_interval
from nlgnn.experiments.section import Section, markdown_table
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.training.checks import check_graph
from nlgnn.training.fit import Setting, fit_settings, setting_of
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Run
from nlgnn.training.systems import default_metric


@dataclass(frozen=True)
class Comparison:
    """What makes each model, its recipe and its runs, by name; differences are of the first one minus each other."""

    graph: str
    settings: Mapping[str, Setting]
    runs: Mapping[str, Sequence[Run]]

    def sections(self) -> list[Section]:
        """As pages and tables take them: `nlgnn.html_page(title, comparison.sections())`."""
        first, (_, recipe) = next(iter(self.settings.items()))
        metric = recipe.metric
        tests = {name: [run.test.get(metric) for run in runs] for name, runs in self.runs.items()}
        rows = [
            {
                "model": name,
                f"validation {metric} %": str(spread([run.val[metric] for run in runs if run.val]) or "–"),
                f"test {metric} %": str(spread([test for test in tests[name] if test is not None]) or "–"),
                f"{first} minus it": "" if name == first else str(paired_interval(tests[first], tests[name]) or "–"),
            }
            for name, runs in self.runs.items()
        ]
        runs = self.runs[first]
        failed = sum(run.failure is not None for of_model in self.runs.values() for run in of_model)
        caption = (
            f"Graph {self.graph}. Mean ± sample standard deviation over {len(runs)} run{'s' * (len(runs) != 1)}, one "
            f"a split, protocol {runs[0].protocol}, figures of {selection_words(recipe.selection, metric)}. "
            "Differences of test figures are paired over splits and seeds, with 95 % t-intervals, rather too narrow "
            "where splits overlap."
        ) + f" Runs that failed: {failed}." * bool(failed)
        return [Section(f"{first} beside others", rows, caption)]

    def __str__(self) -> str:
        (section,) = self.sections()
        return f"{markdown_table(section.rows)}\n{section.caption}"


def compare(
    models: Mapping[str, str | Callable[[], nn.Module]],
    graph: Graph,
    splits: str | Split | Sequence[Split] | None = None,
    recipe: Recipe | None = None,
    *,
    progress: bool = True,
) -> Comparison:
    """Train several models on the same splits, with the same seeds, metric and rule of selection.

    Args:
        models: by the name that tables give them: what makes a fresh model, or the name of a system. The first is the
            one that others are compared with.
        graph: as for `fit`.
        splits: as for `fit`.
        recipe: how to train them. Of a named system, all else that it does not say stays as the system has it.
        progress: as for `fit`.
    """
    if not isinstance(models, Mapping) or not models:
        raise OptionError("there are no models to compare.", 'Give some: {"mine": lambda: MyModel(...), "gcn": "gcn"}.')
    check_graph(graph)
    if recipe is None or isinstance(recipe, Recipe):  # else `setting_of` speaks
        own = recipe or Recipe()
        metric = own.metric if "metric" in own.model_fields_set else default_metric(graph)
        recipe = own.model_copy(update={"metric": metric, "selection": own.selection})  # which count as given now
    settings = {name: setting_of(model, graph, recipe) for name, model in models.items()}
    runs = fit_settings(list(settings.values()), graph, splits, progress=progress)
    return Comparison(graph.name, settings, dict(zip(models, runs, strict=True)))
