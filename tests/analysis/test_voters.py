"""Who voted on a node: the figures add up to its logits, and everyone named was a training node near it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nlgnn.analysis import explain_node, sorted_sequence
from nlgnn.analysis.explain import vote_homophily, votes_on
from nlgnn.datasets.synthetic import planted_order_graph
from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import prepare
from nlgnn.nn.learned_order import LearnedOrder
from nlgnn.nn.local import MLP
from nlgnn.nn.neighbour_vote import SHARES, NeighbourVote
from nlgnn.report.explanation import explain_in_run, explained_sections
from nlgnn.report.figures.votes import save_votes, vote_rows
from nlgnn.training.loop import evaluate
from nlgnn.training.train import Plan, train

GRAPH = planted_order_graph(num_groups=10, group_size=8)


def model_on(graph: Graph, share: float = 2.0) -> NeighbourVote:
    torch.manual_seed(0)
    space = LearnedOrder(2)
    model = NeighbourVote(MLP(2, 6, 2, dropout=0.5), 2, graph.num_nodes, space=space).double()
    known = torch.from_numpy(np.where(np.arange(graph.num_nodes) % 3, graph.y, -1))
    model.start(prepare(model, graph), known)
    model.choose(SHARES.index(share))
    return model


def logits_of(model: NeighbourVote) -> NDArray[np.float64]:
    was_training = model.training
    logits = evaluate(model, prepare(model, GRAPH)).numpy()
    model.train(was_training)
    return logits


@pytest.mark.parametrize("share", [0.0, 2.0])
def test_contributions_add_up_to_the_logits(share: float) -> None:
    model = model_on(GRAPH, share)
    logits = logits_of(model)
    for node in range(GRAPH.num_nodes):
        votes = votes_on(model, GRAPH, node)
        np.testing.assert_allclose(votes.own + votes.contributions.sum(0), logits[node], atol=1e-9)
    assert model.training  # it stays in its mode


def test_voters_are_training_nodes_by_falling_weight_and_never_the_node_itself() -> None:
    model = model_on(GRAPH)
    known = model.known.numpy()
    for node in range(GRAPH.num_nodes):
        votes = votes_on(model, GRAPH, node)
        assert (known[votes.nodes] >= 0).all()
        assert node not in votes.nodes
        assert len(set(votes.nodes.tolist())) == len(votes.nodes) > 0
        assert (np.diff(votes.weights) <= 0).all()


def test_the_explanation_has_them() -> None:
    model = model_on(GRAPH)
    one, votes = explain_node(model, GRAPH, 5), votes_on(model, GRAPH, 5)
    assert [voter.node for voter in one.voters] == votes.nodes.tolist()
    assert [voter.label for voter in one.voters] == [GRAPH.class_names[GRAPH.y[node]] for node in votes.nodes]
    hidden = explain_node(model, replace(GRAPH, y=np.full_like(GRAPH.y, -1)), 5)
    assert [voter.label for voter in hidden.voters] == [voter.label for voter in one.voters]  # what they vote with
    assert one.vote_share == 2
    assert one.window == ()
    np.testing.assert_allclose(one.logits, logits_of(model)[5])


def test_what_a_voter_has_in_common_with_the_node() -> None:
    """Voters share the nodes that both link to, by name, whether the edges have a direction or not."""
    edges = np.array([[5, 5, 5, 6, 7, 8, 9], [1, 2, 3, 2, 5, 1, 5]])
    for directed in (True, False):
        graph = replace(
            GRAPH, edge_index=edges, directed=directed, node_names=tuple(f"n{node}" for node in range(GRAPH.num_nodes))
        )
        one = explain_node(model_on(graph), graph, 5)
        pairs = [*zip(*edges, strict=True), *(() if directed else zip(*edges[::-1], strict=True))]
        links = {node: {f"n{end}" for start, end in pairs if start == node} for node in range(GRAPH.num_nodes)}
        assert one.num_links == len(links[5])
        for voter in one.voters:
            assert set(voter.shared) == links[5] & links[voter.node]
            assert voter.linked == ((5, voter.node) in {*zip(*edges, strict=True), *zip(*edges[::-1], strict=True)})


def test_the_picture_of_votes(tmp_path: Path) -> None:
    one = explain_node(model_on(GRAPH), GRAPH, 5)
    shared = [("a", "b"), ("b",), (), ("b", "c")]
    voters = tuple(
        replace(voter, shared=names) for voter, names in zip(one.voters, shared, strict=False)
    )  # the weights fall
    assert len(voters) == 4
    nodes, lines = vote_rows(replace(one, voters=voters))
    assert [node["node"] for node in nodes if node["kind"] == "linked by both"] == ["b", "a", "c"]
    assert [node["node"] for node in nodes if node["kind"] == "voter"] == [voter.name for voter in voters]
    assert len(lines) == 3 + 5  # from the node to those shared, and from these to voters
    assert lines[3]["weight"] == 1
    save_votes(one, tmp_path / "votes.svg")
    assert f"weight {one.voters[0].weight:.2g}" in (tmp_path / "votes.svg").read_text()
    with pytest.raises(OptionError, match="no node votes on '5'"):
        save_votes(replace(one, voters=()), tmp_path / "none.svg")


def test_the_sorted_sequence_of_votes_is_the_principal_order() -> None:
    model = model_on(GRAPH)
    sequence = sorted_sequence(model, GRAPH)
    assert sorted(sequence.nodes.tolist()) == list(range(GRAPH.num_nodes))
    assert (np.diff(sequence.scores) >= 0).all()


def test_in_a_run(tmp_path: Path) -> None:
    plan = Plan("planted-order", "vote-mlp", runs=1, preset="robust", options={"epochs": 5})
    trained = train(plan, GRAPH, tmp_path / "run", progress=False)
    explained = explain_in_run(trained, GRAPH, 7)
    sections = {section.title: section for section in explained_sections(explained, top=4)}
    rows = sections["Votes"].rows
    assert [row["node"] for row in rows[4:]] == ["others", "local part", "sum = logit"]
    predicted = [float(row[next(name for name in row if name.startswith("predicted"))]) for row in rows]
    assert sum(predicted[:-1]) == pytest.approx(predicted[-1], abs=0.005)
    assert list(sections["Votes"].rows[0])[:4] == ["node", "label", "weight", "share"]
    facts = {row["what"]: row["value"] for row in sections["Node 7 of planted-order"].rows}
    assert "local part alone" in facts
    assert "weight of votes" in facts
    assert len(explained.to_dict(3)["voters"]) == len(explained.explanation.voters)


def test_homophily_of_votes_is_that_of_a_loop() -> None:
    model = model_on(GRAPH)
    y = np.where(np.arange(GRAPH.num_nodes) % 5, GRAPH.y, -1)  # nodes of unknown label neither vote nor count
    graph = replace(GRAPH, y=y)
    model.eval()
    e = model.positions(*prepare(model, graph)).detach()
    shares, volumes = [], []
    for node in np.flatnonzero(y >= 0):
        near, weights = (part.numpy() for part in model.space.neighbours_of(e, int(node)))
        known = y[near] >= 0
        volume = weights[known].sum()
        shares.append(weights[known & (y[near] == y[node])].sum() / volume)
        volumes.append(volume / (0.05 + volume))
    model.train()
    assert vote_homophily(model, graph) == pytest.approx(np.average(shares, weights=volumes))
    assert model.training


@pytest.mark.parametrize("log_temperature", [0.0, 6.0])
def test_labels_that_have_nothing_to_do_with_the_space_agree_by_chance(log_temperature: float) -> None:
    """Also where hardly any node is near enough to vote."""
    rng = np.random.default_rng(0)
    graph = Graph(rng.standard_normal((1000, 2)), np.zeros((2, 0), int), rng.integers(2, size=1000))
    model = model_on(graph)
    model.space.log_temperature.data.fill_(log_temperature)
    assert vote_homophily(model, graph) == pytest.approx(0.5, abs=0.05)
