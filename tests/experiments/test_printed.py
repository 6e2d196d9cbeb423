"""Printed figures: the file is in order, and a result is compared with those that are fit for it."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from nlgnn.experiments.compare import Spread
from nlgnn.experiments.paper import paper_results
from nlgnn.experiments.printed import Figure, comparable_figures, distance, printed_figures, sources, split_words
from nlgnn.experiments.systems import COMPARED_SYSTEMS, SMALL_DATASETS
from nlgnn.training.systems import get_system

ALL = [
    figure for system in COMPARED_SYSTEMS for dataset in SMALL_DATASETS for figure in printed_figures(system, dataset)
]


def test_every_figure_is_of_a_cell_and_has_an_origin() -> None:
    text = resources.files("nlgnn.experiments").joinpath("printed_figures.json").read_text()
    assert len(ALL) == len(json.loads(text)["figures"]) > 100  # none is of another system or dataset
    for figure in ALL:
        assert 0 < figure.mean < 100
        assert figure.std is None or 0 < figure.std < 10
        assert figure.kind in ("authors", "third-party")
        assert figure.split in split_words()
    assert {figure.source for figure in ALL} == set(sources())


def test_variants_are_those_of_the_system() -> None:
    for figure in ALL:
        variants = get_system(figure.system).variants
        if isinstance(figure.variant, dict):
            assert figure.variant in variants, figure
        else:
            assert (figure.variant == "best") == bool(variants), figure


def test_corrected_cornell_has_no_printed_figures() -> None:
    assert not [figure for figure in ALL if figure.dataset == "cornell"]


def test_figures_are_those_of_the_paper() -> None:
    """What the paper prints or quotes for a system is the figure here, or the best here, rounded."""
    rows = paper_results()["tables"]["all_results"]["rows"]
    seen = 0
    for system, cells in rows.items():
        for dataset, cell in cells.items():
            name = "cornell-pre2022" if dataset == "Cornell" else dataset.lower()
            figures = printed_figures(system.lower(), name)
            own = [figure for figure in figures if "Liu et al. 2021" in figure.source]
            for figure in own:
                assert (figure.mean, figure.std) == (cell["mean"], cell["std"]), figure
                seen += 1
    assert seen == 6 * 9  # MLP, GCN, GAT and three of Geom-GCN
    for table in ("first_category", "second_category"):
        for system in ("H2GCN", "SimP-GCN"):
            for dataset, cell in paper_results()["tables"][table]["rows"].get(system, {}).items():
                name = "cornell-pre2022" if dataset == "Cornell" else dataset.lower()
                figures = printed_figures(system.lower(), name)
                assert not figures or max(figure.mean for figure in figures) == pytest.approx(cell["mean"], abs=0.051)


def test_the_authors_own_figure_of_the_same_variant_comes_first() -> None:
    options = {"rounds": 2, "dropout": 0.5}
    assert [figure.mean for figure in comparable_figures("h2gcn", "texas", "geom-gcn", options)] == [82.16]
    assert [figure.mean for figure in comparable_figures("geom-gcn", "texas", "geom-gcn", {"space": "isomap"})] == [
        57.58
    ]


def test_figures_of_third_parties_stand_in_only_where_the_authors_have_none() -> None:
    assert {figure.kind for figure in printed_figures("gcnii", "texas")} == {"authors", "third-party"}
    assert {figure.kind for figure in comparable_figures("gcnii", "texas", "geom-gcn", {})} == {"authors"}
    assert {figure.kind for figure in comparable_figures("gcnii", "actor", "geom-gcn", {})} == {"third-party"}


def test_else_the_best_variant_or_all() -> None:
    assert [figure.mean for figure in comparable_figures("geom-gcn", "cora", "geom-gcn", {"space": "isomap"})] == [85.3]
    assert [figure.mean for figure in comparable_figures("geom-gcn", "texas", "geom-gcn", {})] == [67.6]
    assert [figure.mean for figure in comparable_figures("h2gcn", "texas", "geom-gcn", {})] == [84.86, 82.16]
    of_third_parties = comparable_figures("cpgcn", "texas", "geom-gcn", {"prior": "mlp", "hops": 1})
    assert [figure.mean for figure in of_third_parties] == [82.6, 76.0]  # nobody printed one hop


def test_figures_of_other_splits_are_not_compared() -> None:
    assert comparable_figures("fagcn", "cora", "geom-gcn", {}) == []  # 20 training nodes a class
    assert {figure.kind for figure in comparable_figures("cpgcn", "chameleon", "geom-gcn", {})} == {"third-party"}
    assert [figure.mean for figure in comparable_figures("cpgcn", "chameleon", "random-10", {})] == [56.9]
    assert [figure.split for figure in comparable_figures("gcn", "texas", "random-60", {})] == ["R60"]
    assert [figure.split for figure in comparable_figures("gcn", "texas", "geom-gcn", {})] == ["R60", "G48?"]


def printed(mean: float, std: float | None = None) -> Figure:
    return Figure("gcn", None, "texas", mean, std, "G48", "authors", "a paper")


@pytest.mark.parametrize(
    ("ours", "figures", "expected"),
    [
        (Spread(80.0, 2.0), [printed(85.0)], -2.5),
        (Spread(80.0, 3.0), [printed(75.0, 4.0)], 1.0),
        (Spread(80.0, 2.0), [printed(80.0)], 0.0),
        (Spread(80.0, 2.0), [printed(70.0), printed(90.0)], 0.0),
        (Spread(80.0, 3.0), [printed(60.0), printed(70.0, 4.0)], 2.0),
        (Spread(80.0, 2.0), [printed(91.0), printed(90.0), printed(99.0)], -5.0),
        (Spread(80.0, None), [printed(85.0)], None),  # a single run
        (Spread(80.0, 0.0), [printed(85.0)], None),
    ],
)
def test_distance(ours: Spread, figures: list[Figure], expected: float | None) -> None:
    assert distance(ours, figures) == expected


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (printed(80.0), "80.0"),
        (printed(67.57, 4.8), "67.57 ± 4.8"),
        (printed(80.0)._replace(variant={"space": "isomap"}), "80.0 (space=isomap)"),
        (printed(80.0)._replace(variant="best"), "80.0"),
    ],
)
def test_words_of_a_figure(figure: Figure, text: str) -> None:
    assert str(figure) == text
