"""Why a node of a trained run came out as it did, as sections: the node, its window in the order, its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlgnn.analysis import Explanation, NodeFacts, explain_node
from nlgnn.experiments.compare import selection_words
from nlgnn.experiments.own_columns import ColumnEffect, column_effects, effects_section, num_columns
from nlgnn.experiments.section import Rows, Section
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.training.execution import choose_device, limited_threads, model_like
from nlgnn.training.run import load_weights
from nlgnn.training.train import Trained

LONGEST_NAME = 40
WINDOW_CAPTION = (
    "What each node within reach of the convolutions adds to the logits of two classes, with ReLU gates, scores and "
    "order held as they are. With what the node's own embedding adds (itself, locally) and the biases, it sums to the "
    "logit. Offset 0 is the node itself by way of the order. The figures split one computation; they are no causes: "
    "without a node, gates, scores and order would be others."
)


@dataclass(frozen=True, eq=False)
class ExplainedNode:
    """An explanation, and where it comes from: the run, and the part of its split that the node is in."""

    explanation: Explanation
    graph: str
    model: str
    run: int
    part: str
    protocol: str  # in words, for captions
    columns: Sequence[ColumnEffect] = ()
    num_columns: int = 0

    def to_dict(self, top: int) -> dict[str, Any]:
        """All of it, for JSON, but at most `top` neighbours."""
        one = self.explanation
        where = {"graph": self.graph, "model": self.model, "run": self.run, "part": self.part}
        figures = {
            "probability": one.probability,
            "probabilities": one.probabilities,
            "silenced_probabilities": one.silenced_probabilities,
            "num_neighbours": len(one.neighbours),
            "neighbours": one.neighbours[:top],
            "protocol": self.protocol,
            "columns": [effect._asdict() for effect in self.columns[:top]],
        }
        dictionary: dict[str, Any] = _plain(where | vars(one) | figures)
        return dictionary


def _plain(value: Any) -> Any:
    """Arrays and dataclasses as lists and dictionaries."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, NodeFacts):
        return _plain(vars(value))
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def explain_in_run(
    trained: Trained, graph: Graph, node: int | np.integer | str, run: int | None = None
) -> ExplainedNode:
    """Explain a node by the weights of one run: that of the given number, else the first that did not fail."""
    chosen = trained.finished_run(run)
    recipe = trained.recipe
    model = model_like(trained.factory)
    load_weights(model, chosen.state, f"run {chosen.index} of {trained.folder.path}")
    with limited_threads(recipe.threads, graph):
        scaled = graph.scale_features(recipe.features)
        explanation = explain_node(model.to(choose_device("auto")), scaled, node)
    split = make_splits(graph, trained.plan.protocol, trained.plan.runs)[chosen.index]
    given = "".join(f", {name}={value}" for name, value in trained.plan.options.items())
    protocol = (
        f"Graph {graph.name}, {trained.plan.model}{given}, run {chosen.index} on split {chosen.split} of protocol "
        f"{chosen.protocol}; weights of {selection_words(recipe.selection, recipe.metric)}, epoch "
        f"{chosen.chosen_epoch}."
    )
    return ExplainedNode(
        explanation,
        graph.name,
        trained.plan.model,
        chosen.index,
        _part(split, explanation.node),
        protocol,
        column_effects(trained, graph, explanation.node, chosen),
        num_columns(trained.plan),
    )


def _part(split: Split, node: int) -> str:
    parts = {"train": split.train, "validation": split.val, "test": split.test}
    return next((name for name, mask in parts.items() if mask[node]), "none")


def explained_sections(explained: ExplainedNode, top: int) -> list[Section]:
    """The node, its window, and at most `top` of its columns and of its neighbours."""
    one = explained.explanation
    window = (
        Section("Its window in the sorted order", [], "", one.why_no_window)
        if one.why_no_window
        else Section("Its window in the sorted order", _window_rows(one), WINDOW_CAPTION, text_columns=4)
    )
    if one.vote_share is not None:
        window = _voters(one, top)
    columns = [effects_section(explained.columns, one.prediction, explained.num_columns, top)]
    return [_summary(explained), *(columns if explained.columns else []), window, _neighbours(one, top)]


def _summary(explained: ExplainedNode) -> Section:
    one = explained.explanation
    values = {
        "label": _label(one),
        "prediction": f"{_short(one.prediction)}, probability {one.probability:.3f}",
        "part in this run": explained.part,
    }
    caption = explained.protocol
    if one.vote_share is not None and (silenced := one.silenced_probabilities) is not None:
        alone = int(silenced.argmax())
        values["local part alone"] = f"{_short(one.class_names[alone])}, probability {silenced[alone]:.3f}"
        values["votes count"] = f"{one.vote_share:g} times, as validation chose"
        if not one.vote_share:
            values["votes count"] = "nothing in this run, as validation chose; another may tell more (--run)"
    elif (silenced := one.silenced_probabilities) is not None:
        predicted, alone = int(one.logits.argmax()), int(silenced.argmax())
        words = f"{_short(one.class_names[alone])}, probability {silenced[alone]:.3f}"
        words += f"; that of {_short(one.prediction)} {silenced[predicted]:.3f}" if alone != predicted else ""
        values |= {
            "position": f"{one.position:,} of {one.num_nodes:,}",
            "score": f"{one.score:.4g}",
            "non-local part silenced": f"{words} ({silenced[predicted] - one.probability:+.3f})",
        }
        caption += " Positions count from 0. Silenced: the head sees zeros in place of what the convolutions give."
    rows = [{"what": name, "value": value} for name, value in values.items()]
    return Section(f"Node {_short(one.name)} of {explained.graph}", rows, caption, text_columns=2)


def _window_rows(one: Explanation) -> Rows:
    """The window in order; below it what else the logits are made of."""
    assert one.own is not None
    assert one.bias is not None
    classes = _two_classes(one)
    lines = [(f"{node.offset:+d}" if node.offset else "0", _cells(node), node.contributions) for node in one.window]
    nothing = {"label": "", "prediction": ""}
    lines += [
        ("", {"node": "itself, locally", **nothing}, one.own),
        ("", {"node": "biases", **nothing}, one.bias),
        ("", {"node": "sum = logit", **nothing}, one.logits),
    ]
    return [
        {"offset": offset, **cells} | {heading: f"{figures[number]:+.3f}" for heading, number in classes.items()}
        for offset, cells, figures in lines
    ]


def _two_classes(one: Explanation) -> dict[str, int]:
    """The predicted one and the other of interest, by what a column is called."""
    classes = {f"predicted: {_short(one.prediction)}": int(one.logits.argmax())}
    if one.other_class is not None:
        other = one.class_names[one.other_class]
        classes[f"{'label' if one.label == other else 'runner-up'}: {_short(other)}"] = one.other_class
    return classes


def _voters(one: Explanation, top: int) -> Section:
    """The training nodes that it heard, the nearest first."""
    if not one.voters:
        return Section("Who voted", [], "", "No training node is near it in the learned metric.")
    total = sum(voter.weight for voter in one.voters)
    rows: Rows = []
    for voter in one.voters[:top]:
        row = {"node": _short(voter.name), "label": _label(voter), "weight": f"{voter.weight:.3g}"}
        row["share"] = f"{voter.weight / total:.1%}" if total else "–"
        if voter.contributions is not None:
            adds = voter.contributions
            row |= {heading: f"{adds[number]:+.3f}" for heading, number in _two_classes(one).items()}
        rows.append(row)
    if one.voters[0].contributions is not None and one.own is not None:
        heard = [voter.contributions for voter in one.voters[top:] if voter.contributions is not None]
        lines = {"others": np.sum(heard, axis=0)} if heard else {}
        for what, figures in (lines | {"itself, locally": one.own, "sum = logit": one.logits}).items():
            cells = {heading: f"{figures[number]:+.3f}" for heading, number in _two_classes(one).items()}
            rows.append({"node": what, "label": "", "weight": "", "share": "", **cells})
    caption = (
        f"Of {len(one.voters):,} training nodes near it in the learned metric, the {min(top, len(one.voters)):,} that "
        "weigh most."
    )
    if one.voters[0].contributions is not None:
        caption += " What each adds to the logits of two classes: with what the local part says, all sum to the logit."
    return Section("Who voted", rows, caption, text_columns=2)


def _neighbours(one: Explanation, top: int) -> Section:
    shown, count = one.neighbours[:top], len(one.neighbours)
    if not count:
        return Section("Its neighbours in the graph", [], "", "It has none.")
    caption = f"{len(shown):,} of {count:,} shown, by number; direction ignored, without loops."
    if one.label is not None:
        others = [node for node in one.window if node.offset]
        caption += f" Of the neighbours {_agreeing(one, one.neighbours)} have its label"
        caption += f", of the others in its window {_agreeing(one, others)}." if others else "."
    return Section("Its neighbours in the graph", [_cells(node) for node in shown], caption, text_columns=3)


def _agreeing(one: Explanation, nodes: Sequence[NodeFacts]) -> str:
    known = [node for node in nodes if node.label is not None]
    return f"{sum(node.label == one.label for node in known)} of {len(known)}"


def _cells(node: NodeFacts) -> dict[str, str]:
    return {"node": _short(node.name), "label": _label(node), "prediction": _short(node.prediction)}


def _label(node: NodeFacts) -> str:
    return "unknown" if node.label is None else _short(node.label)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
