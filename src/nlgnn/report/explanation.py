"""The explanation of one node's prediction as sections: the node, its window in the order, its neighbours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from nlgnn.analysis import Explanation, NodeFacts, Voter, explain_node
from nlgnn.analysis.columns import ColumnEffect, column_effects, encoder_of
from nlgnn.analysis.contributions import Figures
from nlgnn.analysis.reasons import Reasons
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.report.figures.strips import PARTS, parts_of
from nlgnn.report.page import caption
from nlgnn.report.reasons import label_of, neighbours_section, reasons_section
from nlgnn.report.table import Rows, Section, short
from nlgnn.selection.controls import selection_words
from nlgnn.shallow.base import Contributions, ShallowModel
from nlgnn.training.device import choose_device, limited_threads, model_like
from nlgnn.training.run_folder import load_weights
from nlgnn.training.train import Trained

SHARED_SHOWN = 4  # names of nodes that both a node and its voter link to


@dataclass(frozen=True, eq=False)
class ExplainedNode:
    """An explanation with its origin: the run, and the part of the split that contains the node."""

    explanation: Explanation
    graph: str
    model: str
    run: int
    part: str
    protocol: str  # in words, for captions
    columns: Sequence[ColumnEffect] = ()
    num_columns: int = 0
    feature_names: Sequence[str] = ()
    is_member: bool = False  # of an ensemble

    def to_dict(self, top: int) -> dict[str, Any]:
        """Return everything for JSON, with at most `top` neighbours and columns."""
        one = self.explanation
        everything = asdict(replace(one, by_column=None)) | {
            name: value for name, value in vars(self).items() if name != "explanation"
        }
        everything |= {
            "probability": one.probability,
            "probabilities": one.probabilities,
            "silenced_probabilities": one.silenced_probabilities,
            "num_neighbours": len(one.neighbours),
            "neighbours": everything["neighbours"][:top],
            "columns": [effect._asdict() for effect in self.columns[:top]],
            "by_column": None if one.by_column is None else self._contributions(one.by_column, top),
        }
        dictionary: dict[str, Any] = json.loads(json.dumps(everything, default=lambda array: array.tolist()))
        return dictionary

    def _contributions(self, by_column: Contributions, top: int) -> dict[str, Any]:
        order = np.argsort(-abs(_apart(self.explanation, by_column.values[0])), kind="stable")[:top].tolist()
        columns = [
            {
                "column": by_column.columns[place].name(self.feature_names),
                "group": by_column.columns[place].group,
                "values": by_column.values[0, :, place],
            }
            for place in order
        ]
        groups = {group: sums[0] for group, sums in by_column.by_group().items()}
        return {"expected": by_column.expected, "groups": groups, "columns": columns}


def explain_in_run(
    trained: Trained, graph: Graph, node: int | np.integer | str, run: int | None = None
) -> ExplainedNode:
    """Explain a node by the weights of one run; of an ensemble, by those of the member with the largest weight.

    Args:
        trained: The training.
        graph: Its graph.
        node: The number of the node, or its name if the graph has names.
        run: The number of the run. By default it is the first that did not fail.
    """
    is_member, trained = trained is not trained.leading, trained.leading
    chosen = trained.finished_run(run)
    recipe = trained.recipe
    model = model_like(trained.factory)
    load_weights(model, chosen.state, f"run {chosen.index} of {trained.folder.path}")
    with limited_threads(recipe.threads, graph):
        scaled = graph.scale_features(recipe.features)
        placed = model if isinstance(model, ShallowModel) else model.to(choose_device("auto"))
        explanation = explain_node(placed, scaled, node)
    split = make_splits(graph, trained.plan.protocol, trained.plan.runs)[chosen.index]
    given = "".join(f", {name}={value}" for name, value in trained.plan.options.items())
    protocol = (
        f"Graph {graph.name}, {trained.plan.model}{given}, run {chosen.index} on split {chosen.split} of protocol "
        f"{chosen.protocol}"
    )
    if chosen.epochs:
        words = selection_words(recipe.selection, recipe.metric)
        protocol += f"; weights of {words}, epoch {chosen.chosen_epoch}"
    if isinstance(model, ShallowModel) and not model.uses_edges:
        protocol += "; the model reads no edges"
    if is_member:
        protocol += (
            "; of the ensemble, this is the member with the largest weight. Contributions to the probability are those "
            "of the whole ensemble, other figures are those of this member"
        )
    encoder = encoder_of(trained.plan)
    effects: Sequence[ColumnEffect] = ()
    if explanation.by_column is None:  # else it says the same exactly
        effects = column_effects(trained, graph, explanation.node, chosen)
    return ExplainedNode(
        explanation,
        graph.name,
        trained.plan.model,
        chosen.index,
        PARTS[parts_of(split)[explanation.node]],
        f"{protocol}.",
        effects,
        len(encoder.columns) if encoder else 0,
        encoder.slot_names if encoder else (),
        is_member,
    )


def explained_sections(explained: ExplainedNode, top: int, reasons: Reasons | None = None) -> list[Section]:
    """Return the node, its reasons, its window, voters or columns, and at most `top` of its neighbours."""
    one = explained.explanation
    measured = [] if reasons is None else [reasons_section(reasons, explained.is_member)]
    exact: list[Section] = []
    if one.by_column is not None:
        exact = _contribution_sections(explained, one.by_column, top)
    elif explained.columns:
        exact = [effects_section(explained.columns, one.prediction, explained.num_columns, top)]
    if one.vote_share is not None:
        exact.append(_voters(one, top))
    elif one.window:
        exact.append(Section("Window in the sorted order", _window_rows(one), caption("window"), text_columns=4))
    neighbours = neighbours_section(reasons, top) if reasons and reasons.neighbours else _neighbours(one, top)
    return [_summary(explained), *measured, *exact, neighbours]


def _summary(explained: ExplainedNode) -> Section:
    one = explained.explanation
    values = {
        "label": label_of(one),
        "prediction": f"{short(one.prediction)}, probability {one.probability:.3f} (this run, not calibrated)",
        "part in this run": explained.part,
    }
    text, silenced = explained.protocol, one.silenced_probabilities
    if silenced is not None:
        predicted, alone = int(one.logits.argmax()), int(silenced.argmax())
        words = f"{short(one.class_names[alone])}, probability {silenced[alone]:.3f}"
        if one.vote_share is not None:
            other_runs = "; votes may count in another run (--run)" * (not one.vote_share)
            values |= {"local part alone": words, "weight of votes": f"{one.vote_share:g}, by validation{other_runs}"}
        else:
            words += f"; that of {short(one.prediction)} {silenced[predicted]:.3f}" if alone != predicted else ""
            values |= {
                "position": f"{one.position:,} of {one.num_nodes:,}",
                "score": f"{one.score:.4g}",
                "non-local part silenced": f"{words} ({silenced[predicted] - one.probability:+.3f})",
            }
            text += " Positions count from 0. Silenced: the output of the convolutions is replaced by zeros."
    rows = [{"what": name, "value": value} for name, value in values.items()]
    return Section(f"Node {short(one.name)} of {explained.graph}", rows, text, text_columns=2)


def _window_rows(one: Explanation) -> Rows:
    """Return the window in order, followed by the other terms of the logits."""
    nodes = [({"offset": f"{node.offset:+d}" if node.offset else "0"} | _cells(node), node) for node in one.window]
    terms = [(cells, node.contributions) for cells, node in nodes]
    return _logit_rows(one, terms, {"local part": one.own, "biases": one.bias})


def _logit_rows(
    one: Explanation, terms: Sequence[tuple[dict[str, str], Figures]], more: Mapping[str, Figures | None]
) -> Rows:
    """Return the terms of the logits of two classes: those of nodes, then the others, then their sum."""
    headings, empty = _two_classes(one), dict.fromkeys(terms[0][0], "")
    others = [(empty | {"node": name}, figures) for name, figures in (*more.items(), ("sum = logit", one.logits))]
    return [
        cells | {heading: f"{figures[number]:+.3f}" for heading, number in headings.items()}
        for cells, figures in (*terms, *others)
        if figures is not None
    ]


def _two_classes(one: Explanation) -> dict[str, int]:
    """Return the predicted class and the other of interest, by the heading of their columns."""
    classes = {f"predicted: {short(one.prediction)}": int(one.logits.argmax())}
    if one.other_class is not None:
        other = one.class_names[one.other_class]
        classes[f"{'label' if one.label == other else 'runner-up'}: {short(other)}"] = one.other_class
    return classes


def effects_section(effects: Sequence[ColumnEffect], prediction: str, num_columns: int, top: int) -> Section:
    """Return the largest effects of columns on one node as a table."""
    rows = [
        {
            "column": short(one.column),
            "value": short(one.value),
            "without it": f"{one.probability:.3f}",
            "change": f"{one.change:+.3f}",
            "then predicted": short(one.prediction),
        }
        for one in effects[:top]
    ]
    which = ", those in which the node differs most from the average" if len(effects) < num_columns else ""
    tried = f"{len(effects)} of {num_columns} columns were tried{which}."
    text = caption("effects", prediction=short(prediction), tried=tried)
    return Section("Its own columns", rows, text, text_columns=2)


def _contribution_sections(explained: ExplainedNode, by_column: Contributions, top: int) -> list[Section]:
    """Return what groups of columns, and the strongest columns, contribute to one class rather than another."""
    one = explained.explanation
    apart, expected = _apart(one, by_column.values[0]), float(_apart(one, by_column.expected))
    heading = short(one.prediction)
    if one.other_class is not None:
        heading += f" rather than {short(one.class_names[one.other_class])}"
    parts: dict[str, float] = {"expected": expected}
    parts |= {group: float(_apart(one, sums[0])) for group, sums in by_column.by_group().items()}
    parts["sum"] = sum(parts.values())
    strongest = [place for place in np.argsort(-abs(apart), kind="stable").tolist() if apart[place]]
    columns = [
        {"column": short(column.name(explained.feature_names)), "group": column.group, heading: f"{apart[place]:+.3f}"}
        for place, column in ((place, by_column.columns[place]) for place in strongest[:top])
    ]
    rows = [{"columns": name, heading: f"{figure:+.3f}"} for name, figure in parts.items()]
    return [
        Section("Contributions of the node and of its neighbours", rows, caption("contributions")),
        Section(
            "Columns that contribute most",
            columns,
            f"{len(columns):,} of {len(strongest):,} columns that contribute.",
            text_columns=2,
        ),
    ]


def _apart(one: Explanation, figures: Figures) -> Figures:
    """Return the figures of the predicted class minus those of the other class of interest."""
    other = 0.0 if one.other_class is None else figures[one.other_class]
    return np.asarray(figures[int(one.logits.argmax())] - other)


def _voters(one: Explanation, top: int) -> Section:
    """Return the training nodes that vote for the node, by decreasing weight."""
    if not one.voters:
        return Section("Votes", [], "", "No training node is near it in the learned space.")
    total = sum(voter.weight for voter in one.voters) or 1.0
    terms = [
        (
            {
                "node": short(voter.name),
                "label": label_of(voter),
                "weight": f"{voter.weight:.3g}",
                "share": f"{voter.weight / total:.1%}",
                "linked": "yes" if voter.linked else "no",
                "links to the same nodes": _shared(voter, one.num_links),
            },
            voter.contributions,
        )
        for voter in one.voters[:top]
    ]
    others = [voter.contributions for voter in one.voters[top:]]
    rows = _logit_rows(one, terms, {"others": np.sum(others, axis=0) if others else None, "local part": one.own})
    far = sum(not voter.linked for voter in one.voters)
    text = caption("votes", shown=len(terms), voters=len(one.voters), far=far)
    return Section("Votes", rows, text, text_columns=2)


def _shared(voter: Voter, num_links: int) -> str:
    """Return how many of the node's links lead to the same nodes as those of a voter, and the first of them."""
    names = ", ".join(short(name) for name in voter.shared[:SHARED_SHOWN])
    more = ", …" * (len(voter.shared) > SHARED_SHOWN)
    return f"{len(voter.shared)} of {num_links}" + (f": {names}{more}" if names else "")


def _neighbours(one: Explanation, top: int) -> Section:
    shown, count = one.neighbours[:top], len(one.neighbours)
    if not count:
        return Section("Neighbours in the graph", [], "", "The node has no neighbours.")
    text = f"{len(shown):,} of {count:,} shown, by number; directions and self-loops are ignored."
    if one.label is not None:
        others = [node for node in one.window if node.offset]
        text += f" Its label is shared by {_agreeing(one, one.neighbours)} neighbours"
        text += f" and by {_agreeing(one, others)} others in its window." if others else "."
    return Section("Neighbours in the graph", [_cells(node) for node in shown], text, text_columns=3)


def _agreeing(one: Explanation, nodes: Sequence[NodeFacts]) -> str:
    known = [node for node in nodes if node.label is not None]
    return f"{sum(node.label == one.label for node in known)} of {len(known)}"


def _cells(node: NodeFacts) -> dict[str, str]:
    return {"node": short(node.name), "label": label_of(node), "prediction": short(node.prediction)}
