"""The verdict case by case: it is a function of a few numbers."""

from __future__ import annotations

from each_of import each_of
from nlgnn.selection.diagnosis import Verdict, judge, next_step
from nlgnn.selection.statistics import Interval

BELOW, ABOVE = Interval(-5.0, 1.0, -7.0, -3.0, 5), Interval(5.0, 1.0, 3.0, 7.0, 5)
LEVEL = Interval(0.5, 1.0, -1.5, 2.5, 10)


def means(mlp: float = 60.0, gcn: float = 60.0, gat: float = 60.0) -> dict[str, float]:
    return {"mlp": mlp, "gcn": gcn, "gat": gat}


@each_of(
    ("homophily", "figures", "difference", "category", "local"),
    [
        (0.30, means(60, 65, 64), ABOVE, "assortative", "gcn"),
        (0.30, means(60, 65, 66), ABOVE, "assortative", "gat"),
        (0.80, means(60, 60.5, 60), LEVEL, "assortative", "gcn"),  # level is not below
        (0.80, means(61, 60.5, 60), LEVEL, "assortative", "mlp"),
        (0.80, means(65, 60, 60), BELOW, "first", "mlp"),  # neighbours agree, and yet are in the way
        (0.29, means(65, 60, 60), BELOW, "first", "mlp"),
        (-0.5, means(65, 60, 60), BELOW, "first", "mlp"),
        (0.29, means(60, 65, 64), ABOVE, "second", "gcn"),
        (-0.5, means(60, 64, 65), ABOVE, "second", "gat"),
        (-0.5, means(60, 65, 65), ABOVE, "second", "gcn"),
        (0.29, means(60, 60.5, 60), LEVEL, "undecided", "gcn"),
        (0.29, means(61, 60.5, 60), LEVEL, "undecided", "mlp"),
        (0.29, means(60, 65, 60), None, "undecided", "gcn"),
        (0.80, means(60, 65, 60), None, "assortative", "gcn"),
    ],
)
def test_category_and_local_model(
    homophily: float, figures: dict[str, float], difference: Interval | None, category: str, local: str
) -> None:
    verdict = judge(homophily, figures, difference)
    assert (verdict.category, verdict.local) == (category, local)
    assert verdict.non_local == f"nl{local}"


def test_without_edges_nothing_is_decided() -> None:
    for difference in (BELOW, ABOVE, LEVEL):
        verdict = judge(0.0, means(60, 65, 60), difference, has_edges=False)
        assert (verdict.category, verdict.local) == ("undecided", "mlp")
        assert "no edges" in verdict.words


def test_words_name_what_they_rest_on() -> None:
    verdict = judge(-0.28, means(60, 64, 65), ABOVE)
    assert verdict.title == "disassortative, second category"
    assert "-0.28" in verdict.words
    assert "gat is ahead of mlp" in verdict.words
    assert verdict.confidence.startswith("gat − mlp: +5.0 points")
    assert "+3.0 to +7.0 over 5 paired runs, which excludes zero" in verdict.confidence
    assert "gat is the better of two by the same figures, which are tested up to six times" in verdict.confidence
    assert "contains zero" in judge(0.1, means(), LEVEL).confidence
    assert "Too few" in judge(0.1, means(), None).confidence
    assert "although neighbours agree" in judge(0.8, means(), BELOW).words
    assert "although" not in judge(0.1, means(), BELOW).words


@each_of(
    ("verdict", "command"),
    [
        (judge(0.8, means(60, 65), ABOVE), "nlgnn train cora --model gcn --splits geom-gcn"),
        (judge(0.0, means(65), BELOW), "nlgnn train cora --model nlmlp --splits geom-gcn --controls"),
        (judge(0.0, means(60, 65), ABOVE), "nlgnn train cora --model nlgcn --splits geom-gcn --controls"),
        (judge(0.0, means(), LEVEL), "nlgnn train cora --model auto --splits geom-gcn"),
    ],
)
def test_the_next_command(verdict: Verdict, command: str) -> None:
    assert next_step(verdict, ["cora"], "geom-gcn") == command
    assert next_step(verdict, ["cora"], None) == command.replace(" --splits geom-gcn", "")


def test_where_the_order_was_seen_not_to_help_the_gate_decides() -> None:
    first, assortative = judge(0.0, means(65), BELOW), judge(0.8, means(60, 65), ABOVE)
    assert next_step(first, ["texas"], None, order_helps=False) == "nlgnn train texas --model auto"
    assert next_step(assortative, ["cora"], None, order_helps=False) == "nlgnn train cora --model gcn"


def test_a_graph_without_a_name_is_trained_in_python() -> None:
    first = judge(0.0, means(65), BELOW)
    assert next_step(first, [], None) == 'nlgnn.fit("nlmlp", graph)'
    assert next_step(first, [], None, order_helps=False) == 'nlgnn.fit("mlp", graph)'
    undecided = judge(0.0, means(61), LEVEL)
    assert next_step(undecided, [], "column") == 'nlgnn.fit("mlp", graph, "column")'
