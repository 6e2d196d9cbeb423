"""Printed figures: the file is in order, and a result is compared with those that are fit for it."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from each_of import each_of
from nlgnn.models.registry import get_system
from nlgnn.paper.numbers import (
    Figure,
    Printed,
    agreement,
    agreement_with_any,
    comparable_figures,
    paper_results,
    printed_accuracy,
    printed_cpgcn,
    printed_figures,
    printed_speed,
    printed_statistics,
    printed_validation,
    shortfall,
    sources,
    split_names,
)
from nlgnn.paper.plans import SMALL, SYSTEM_ORDER
from nlgnn.selection.statistics import Spread

DATASETS = (*SMALL, "cornell")
ALL = [figure for system in SYSTEM_ORDER for dataset in DATASETS for figure in printed_figures(system, dataset)]


def test_every_figure_is_of_a_cell_and_has_an_origin() -> None:
    text = resources.files("nlgnn.paper").joinpath("numbers.json").read_text("utf-8")
    assert len(ALL) == len(json.loads(text)["others"]["figures"]) > 100  # none is of another system or dataset
    for figure in ALL:
        assert 0 < figure.mean < 100
        assert figure.std is None or 0 < figure.std < 10
        assert figure.kind in ("authors", "third-party")
        assert figure.split in split_names()
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


@each_of(
    ("ours", "theirs", "expected"),
    [
        (Spread(80.0, 2.0), printed(85.0, 5.0), "✓"),
        (Spread(79.9, 9.0), printed(85.0, 5.0), "▼"),  # the printed deviation counts
        (Spread(80.0, 2.0), printed(77.9), "▲"),  # ours counts where none is printed
        (Spread(80.0, 2.0), printed(78.0), "✓"),
        (Spread(80.0, None), printed(85.0), ""),
    ],
)
def test_agreement(ours: Spread, theirs: Figure, expected: str) -> None:
    assert agreement(ours, theirs) == expected


@each_of(
    ("ours", "figures", "expected"),
    [
        (Spread(80.0, 2.0), [printed(70.0), printed(90.0)], "✓"),  # between them
        (Spread(80.0, 2.0), [printed(60.0), printed(79.0)], "✓"),
        (Spread(80.0, 2.0), [printed(91.0), printed(90.0)], "▼"),
        (Spread(80.0, 2.0), [printed(70.0, 1.0), printed(60.0)], "▲"),
        (Spread(80.0, 2.0), [], ""),
    ],
)
def test_agreement_with_several_figures(ours: Spread, figures: list[Figure], expected: str) -> None:
    assert agreement_with_any(ours, figures) == expected


def test_shortfall() -> None:
    assert shortfall(Spread(81.5, 3.0), Printed(85.4, 3.8)) == pytest.approx(0.1)
    assert shortfall(Spread(83.0, 3.0), Printed(85.4, 3.8)) == 0


def test_numbers_of_the_paper() -> None:
    assert str(printed_accuracy("nlmlp", "cornell-pre2022")) == "84.9 ± 5.7"
    assert printed_accuracy("nlmlp", "cornell") is None  # the paper used the older file
    assert str(printed_accuracy("h2gcn", "squirrel")) == "37.9 ± 2.0"  # in the table of its category only
    assert printed_accuracy("h2gcn", "snap-patents") is None
    assert str(printed_validation("gat", "cora")) == "89.8 ± 1.4"
    assert str(printed_cpgcn("nlgcn", "chameleon")) == "60.0"
    assert printed_speed("nlgcn", "chameleon")["ratio_to_gcn"] == 1.2
    assert printed_speed("nlmlp", "chameleon")["status"] == "not_reported"
    assert printed_statistics("cornell")["nodes"] == printed_statistics("cornell-pre2022")["nodes"] == 183
    assert printed_statistics("squirrel-filtered") == {}


@each_of(
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
