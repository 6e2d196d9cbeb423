"""Decision: how labels follow from calibrated probabilities, by a threshold or by costs.

Thresholds are chosen on validation nodes. A graph with two classes has a positive class: the rare one, else the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from nlgnn.errors import OptionError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.json_files import read_json
from nlgnn.models.build import rare_class
from nlgnn.training.costs import Costs, cheapest, cost_matrix, mean_cost, split_costs
from nlgnn.training.predict import Probabilities, temperatures_of
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.stored_run import first_fault
from nlgnn.training.thresholds import (
    BEST_F1,
    Answers,
    Rule,
    answers_of,
    choose_threshold,
    parse_threshold,
    point_at,
    run_thresholds,
)
from nlgnn.training.trained import Ensemble, Trained

MOST_PROBABLE, LEAST_COST = "most probable", "least cost"
DECISION_FILE = "decision.json"


@dataclass(frozen=True)
class Decision:
    """How labels follow from probabilities.

    Attributes:
        rule: most probable, least cost, best-f1, precision=…, recall=… or a number.
        positive: The number of the positive one of two classes, which the threshold is for.
        positive_class: Its name; empty for other numbers of classes.
        threshold: The probability of the positive class from which a node belongs to it. None: the most probable
            class, or that of the least expected cost.
        costs: The cost of each error, if costs were given: true classes in rows, predicted classes in columns.
        is_default: Whether the rule was chosen because the positive class is rare, and not by the user.
        remark: A sentence on a rule that validation nodes cannot satisfy.
        validation: Figures on validation nodes, of all runs together: see `figures`.
        test: The same on test nodes. They decide nothing.
    """

    rule: str = MOST_PROBABLE
    positive: int = 1
    positive_class: str = ""
    threshold: float | None = None
    costs: list[list[float]] | None = None
    is_default: bool = False
    remark: str = ""
    validation: dict[str, float] = field(default_factory=dict)
    test: dict[str, float] = field(default_factory=dict)

    @property
    def is_chosen_by_validation(self) -> bool:
        """Return whether validation nodes decide about the threshold."""
        return self.rule == BEST_F1 or "=" in self.rule

    def labels(self, probabilities: Probabilities) -> NDArray[np.int64]:
        """Return the label of each node, for probabilities `[…, c]`."""
        if self.threshold is not None:
            reached = probabilities[..., self.positive] >= self.threshold
            return np.where(reached, self.positive, 1 - self.positive)
        if self.rule == LEAST_COST:
            return cheapest(probabilities, np.array(self.costs))
        chosen: NDArray[np.int64] = probabilities.argmax(-1)
        return chosen

    def figures(self, answers: Answers) -> dict[str, float]:
        """Return precision, recall and F1 of the positive class in percent, accuracy, and the mean cost per node."""
        if not len(answers.labels):
            return {}
        predictions = self.labels(answers.probabilities)
        figures = {"accuracy": 100 * float((predictions == answers.labels).mean())}
        if answers.probabilities.shape[1] == 2:
            own, found = answers.labels == self.positive, predictions == self.positive
            point = point_at(1.0, found.astype(float), own)
            figures |= {"precision": 100 * point.precision, "recall": 100 * point.recall, "f1": 100 * point.f1}
            figures |= {"positive": float(own.sum()), "predicted": float(found.sum())}
        if self.costs is not None:
            figures["cost"] = mean_cost(answers.labels, predictions, np.array(self.costs))
        return figures | {"nodes": float(len(predictions))}

    def words(self) -> str:
        """Return sentences on how labels are chosen, and what that gives on validation and test nodes."""
        if self.rule == MOST_PROBABLE:
            return "Labels are the most probable classes."
        if self.threshold is None:
            words = "Labels have the least expected cost."
        else:
            why = {BEST_F1: "best F1", LEAST_COST: "least expected cost"}.get(self.rule, self.rule)
            why = why if "=" in why or " " in why else "as given"
            why += ", median of the runs" if self.is_chosen_by_validation else ""
            words = f"Nodes are labelled {self.positive_class} from a probability of {self.threshold:.3f} ({why})."
        for name, known in {"Validation": self.validation, "Test": self.test}.items():
            details = [f"{figure} {known[figure]:.1f} %" for figure in ("precision", "recall") if figure in known]
            if "recall" in known:
                details[-1] += f" of {known['positive']:.0f} nodes"
            details += [f"cost per node {known['cost']:.3f}"] if "cost" in known else []
            words += f" {name}: {', '.join(details)}." if details else ""
        return f"{words} {self.remark}".strip()


DECISIONS = TypeAdapter(Decision)


def read_decision(folder: Path) -> Decision | None:
    """Read the decision that is stored with a training, or return None if there is none.

    Raises:
        RunFolderError: If the file is damaged.
    """
    path = folder / DECISION_FILE
    try:
        return DECISIONS.validate_python(read_json(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise RunFolderError(
            f"{path} cannot be read: {first_fault(error)}.", "Restore the file, or remove it."
        ) from None


def check_decision(
    graph: Graph, threshold: str | float | None, cost: str | None, class_weight: str | None = None
) -> None:
    """Raise an `OptionError` if a threshold or costs cannot be read or do not apply to a graph and a training."""
    if threshold is not None:
        parse_threshold(str(threshold))
        if graph.num_classes != 2:
            how = "Leave it out, or give costs: --cost CLASS:COST."
            raise OptionError(f"A threshold needs two classes, this graph has {graph.num_classes}.", how)
    if cost is not None:
        cost_matrix(cost, graph.class_names)
        if threshold is None and class_weight == "balanced":
            raise OptionError(
                f"cost={cost!r} needs the frequencies of classes; class_weight=balanced raises those of small classes.",
                "Leave one of them out: costs alone find the rare class more often, too.",
            )


def check_texts(threshold: str | None, cost: str | None) -> None:
    """Raise an `OptionError` if the text of a threshold or of costs cannot be read, before there is a graph."""
    if threshold is not None:
        parse_threshold(threshold)
    if cost is not None:
        split_costs(cost)


def decide(
    probabilities: Probabilities,
    temperatures: Sequence[float],
    graph: Graph,
    splits: Sequence[Split],
    threshold: str | float | None = None,
    cost: str | None = None,
) -> Decision:
    """Choose how labels follow from probabilities. Labels of test nodes have no influence on the choice.

    Each run chooses a threshold on its own validation nodes, and their median is taken. A given threshold comes first,
    then costs. Otherwise a rare class gets the threshold of the best F1, and other graphs the most probable class.

    Args:
        probabilities: Uncalibrated probabilities of the runs, `[runs, n, c]`.
        temperatures: The temperature of each run.
        graph: The graph of the training.
        splits: The split of each run.
        threshold: best-f1, precision=0.9, recall=0.8 or a number.
        cost: Costs, as `cost_matrix` takes them.

    Raises:
        OptionError: If the threshold or the costs do not apply to the graph.
    """
    check_decision(graph, threshold, cost)
    rare = rare_class(graph)
    positive, two_classes = 1 if rare is None else rare, graph.num_classes == 2
    costs = None if cost is None else cost_matrix(cost, graph.class_names)
    validation, test = (answers_of(probabilities, temperatures, graph, splits, part) for part in ("val", "test"))
    is_default = threshold is None and costs is None and rare is not None
    default, remark, chosen = BEST_F1 if is_default else MOST_PROBABLE, "", None
    rule = default if threshold is None else str(threshold)
    if rule != MOST_PROBABLE:
        chosen, remark = _chosen_by_runs(parse_threshold(rule), validation, positive)
    elif costs is not None:
        rule = LEAST_COST
        chosen = least_cost_threshold(costs, positive) if two_classes else None
    name = graph.class_names[positive] if two_classes else ""
    made = Decision(rule, positive, name, chosen, None if costs is None else costs.tolist(), is_default, remark)
    together = [Answers.together(each) for each in (validation, test)]
    return replace(made, validation=made.figures(together[0]), test=made.figures(together[1]))


def _chosen_by_runs(rule: Rule, validation: Sequence[Answers], positive: int) -> tuple[float, str]:
    """Return the median of the thresholds that runs choose on validation nodes, and a remark on what is not reached.

    A single threshold has to serve the mean of all runs. The median is not moved by a run that was unlucky in its few
    positive nodes, and it does not lie among the few highest scores of all runs, as a precision of all runs together
    would have it.
    """
    if rule.kind == "fixed":
        return rule.value, ""
    points = run_thresholds(rule, validation, positive)
    if not points:
        return 0.5, "No validation node is of this class, so that no threshold could be chosen."
    chosen, together = float(np.median([point.threshold for point in points])), Answers.together(validation)
    scores, truth = together.probabilities[:, positive], together.labels == positive
    if rule.kind != "precision" or point_at(chosen, scores, truth).precision >= rule.value:
        return chosen, ""
    nearest = choose_threshold(rule, scores, truth)
    verb = "reaches it" if nearest.precision >= rule.value else "comes nearest"
    remark = (
        f"This falls short of {100 * rule.value:g} % on validation nodes: a threshold of {nearest.threshold:.3f} "
        f"{verb}, with precision {100 * nearest.precision:.1f} %, recall {100 * nearest.recall:.1f} %."
    )
    return chosen, remark


def least_cost_threshold(costs: Costs, positive: int) -> float:
    """Return the probability from which the positive one of two classes has the lower expected cost."""
    missed, false_alarm = costs[positive, 1 - positive], costs[1 - positive, positive]
    return float(false_alarm / (false_alarm + missed))


def decision_of(
    trained: Trained,
    graph: Graph,
    probabilities: Probabilities,
    temperatures: Sequence[float],
    threshold: str | None = None,
    cost: str | None = None,
) -> Decision:
    """Return the decision that is stored with a training, or that of a threshold or costs given in its place.

    Args:
        trained: The training.
        graph: The graph that it was trained on.
        probabilities: The uncalibrated probabilities of its runs on this graph, `[runs, n, c]`.
        temperatures: The temperature of each run.
        threshold: A threshold that replaces threshold and costs of the training.
        cost: Costs that replace those of the training, and its threshold unless that is given, too.
    """
    plan = trained.plan
    if threshold is None and cost is None:
        stored = read_decision(decision_folder(trained))
        if stored is not None:
            return stored
        threshold, cost = plan.threshold, plan.cost
    check_decision(graph, threshold, cost, trained.recipe.class_weight)
    splits = make_splits(graph, plan.protocol, plan.runs)
    own = [splits[run.index] for run in trained.finished]
    return decide(probabilities, temperatures, graph, own, threshold, cost or plan.cost)


def decision_folder(trained: Trained) -> Path:
    """Return the folder that holds the decision of a training; of an ensemble it is that of the automatic choice."""
    return trained.folder.path.parent.parent if isinstance(trained, Ensemble) else trained.folder.path


def store_decision(folder: RunFolder, trained: Trained, graph: Graph) -> Decision:
    """Write the decision of the chosen model, or of the ensemble, into the folder of an automatic choice."""
    found = None if isinstance(trained, Ensemble) else read_decision(trained.folder.path)
    if found is None:
        plan, probabilities = trained.plan, trained.probabilities(graph)
        splits = make_splits(graph, plan.protocol, plan.runs)
        temperatures = temperatures_of(trained, graph, probabilities)
        own = [splits[run.index] for run in trained.finished]
        found = decide(probabilities, temperatures, graph, own, plan.threshold, plan.cost)
    folder.write_json(DECISION_FILE, asdict(found))
    return found
