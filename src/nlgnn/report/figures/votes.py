"""The nodes that vote on a node, and what they have in common with it, as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nlgnn.analysis import Explanation
from nlgnn.errors import OptionError
from nlgnn.report.figures import UNKNOWN_LABEL, class_scale, save_chart, tooltips
from nlgnn.report.table import short

VOTERS, SHARED = 8, 12  # at most this many are drawn
LEFT, MIDDLE, RIGHT = 0.0, 1.0, 2.0
Rows = list[dict[str, Any]]


def vote_rows(one: Explanation) -> tuple[Rows, Rows]:
    """Return the nodes and the lines of a picture of votes.

    The explained node is on the left, its voters of largest weight are on the right, and the nodes that it and they
    link to are in the middle. Nodes that more voters link to come first.
    """
    voters = one.voters[:VOTERS]
    counts: dict[str, int] = {}
    for voter in voters:
        for name in voter.shared:
            counts[name] = counts.get(name, 0) + 1
    shared = sorted(counts, key=lambda name: (-counts[name], name))[:SHARED]
    label = one.label or UNKNOWN_LABEL
    nodes = [_node(one.name, label, "explained", LEFT, 0.5, f"predicted {one.prediction}")]
    nodes += [_node(name, "", "linked by both", MIDDLE, place, "") for name, place in _places(shared)]
    nodes += [
        _node(voter.name, voter.label or UNKNOWN_LABEL, "voter", RIGHT, place, f"weight {voter.weight:.2g}")
        for voter, (_, place) in zip(voters, _places([voter.name for voter in voters]), strict=True)
    ]
    height = {(node["kind"], node["node"]): node["y"] for node in nodes}
    lines = [_line(LEFT, 0.5, MIDDLE, height["linked by both", name], 1.0) for name in shared]
    largest = max((voter.weight for voter in voters), default=1.0)
    lines += [
        _line(MIDDLE, height["linked by both", name], RIGHT, height["voter", voter.name], voter.weight / largest)
        for voter in voters
        for name in voter.shared
        if name in shared
    ]
    return nodes, lines


def _places(names: Sequence[str]) -> list[tuple[str, float]]:
    return [(name, 1 - (number + 0.5) / len(names)) for number, name in enumerate(names)]


def _node(name: str, label: str, kind: str, x: float, y: float, note: str) -> dict[str, Any]:
    text = f"{short(name)} {note}".strip()
    return {"node": name, "label": label, "kind": kind, "x": x, "y": y, "text": text}


def _line(x: float, y: float, x2: float, y2: float, weight: float) -> dict[str, Any]:
    return {"x": x, "y": y, "x2": x2, "y2": y2, "weight": round(weight, 4)}


def longest_column(nodes: Rows) -> int:
    """Return the largest number of nodes above each other in the picture."""
    counts = Counter(node["kind"] for node in nodes)
    return max(counts[kind] for kind in ("linked by both", "voter", "explained"))


def save_votes(one: Explanation, path: Path) -> None:
    """Save the picture of the votes on a node as SVG or PNG.

    Raises:
        OptionError: If no node votes on it.
    """
    import altair

    if not one.voters:
        raise OptionError(f"no node votes on {one.name!r}.", "Name a node that nodes of a vote-… model vote on.")
    nodes, lines = vote_rows(one)
    nodes_data, lines_data = altair.Data(values=nodes), altair.Data(values=lines)
    save_chart(votes_chart(nodes_data, lines_data, one.class_names, longest_column(nodes)), path)


def votes_chart(nodes: Any, lines: Any, class_names: Sequence[str], count: int) -> Any:
    """Draw the nodes and lines of `vote_rows`; `count` is the number of nodes in the longest column."""
    import altair

    hidden = altair.Axis(labels=False, ticks=False, grid=False, domain=False, title=None)
    x = altair.X("x:Q", scale=altair.Scale(domain=[-0.6, 2.7]), axis=hidden)
    y = altair.Y("y:Q", scale=altair.Scale(domain=[0, 1]), axis=hidden)
    strength = altair.StrokeWidth("weight:Q", scale=altair.Scale(domain=[0, 1], range=[0.3, 3]), legend=None)
    rules = altair.Chart(lines).mark_rule(color="#999", opacity=0.6)
    rules = rules.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", strokeWidth=strength)
    scale = class_scale(class_names, has_unknown=True)
    is_node = altair.datum.kind != "linked by both"
    base = altair.Chart(nodes).encode(x=x, y=y, tooltip=tooltips(["node:N", "kind:N", "label:N"]))
    points = base.transform_filter(is_node).mark_point(filled=True, size=160, opacity=1)
    points = points.encode(color=altair.Color("label:N", scale=scale, title="label"))
    squares = base.transform_filter(~is_node).mark_point(shape="square", filled=True, size=70, color="#555", opacity=1)
    texts = base.transform_filter(is_node).mark_text(dy=-13, fontSize=11).encode(text="text:N")
    names = base.transform_filter(~is_node).mark_text(dy=-9, fontSize=10, color="#555").encode(text="text:N")
    return altair.layer(rules, points, squares, texts, names).properties(width=560, height=max(160, 34 * count))
