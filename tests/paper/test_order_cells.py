"""Cells of the learned order."""

from __future__ import annotations

from nlgnn.paper.benchmark import GRAPHS as BENCHMARK_GRAPHS
from nlgnn.paper.order_cells import (
    ALL_PAIRS,
    CONTROLS,
    CONVOLUTION,
    DATA,
    GRAPHS,
    LOCAL_PART,
    ROLES,
    TRIED,
    VOTES,
    conditions,
    order_cells,
)


def test_cells_have_names_of_their_own_and_known_options() -> None:
    cells = order_cells()
    assert len({cell.name for cell in cells}) == len(cells)
    for cell in cells:
        cell.training_settings(cell.candidates[0])


def test_all_graphs_of_the_benchmark_page_are_measured() -> None:
    assert set(GRAPHS) == set(BENCHMARK_GRAPHS)


def test_the_main_graphs_have_all_conditions_on_ten_splits() -> None:
    for dataset in ("chameleon", "squirrel"):
        cells = [cell for cell in order_cells() if cell.dataset == dataset and cell.tags[0] != TRIED]
        assert [cell.condition for cell in cells] == [condition.name for condition in conditions("real")]
        assert {cell.schedule.splits for cell in cells} == {10}
        assert {VOTES, CONVOLUTION, ALL_PAIRS, *CONTROLS[VOTES], *CONTROLS[CONVOLUTION]} <= {
            cell.condition for cell in cells
        }


def test_controls_differ_from_the_learned_order_in_what_their_names_say() -> None:
    of = {one.name: one.options for one in conditions("real")}
    assert of["votes, frozen space"] == {**of[VOTES], "frozen": True}
    assert of["votes, random orders"] == {**of[VOTES], "order": "random"}
    assert of["convolution, kernel 1"] == {**of[LOCAL_PART], "kernel_size": 1}
    assert of["convolution, random order"] == {**of[LOCAL_PART], "order": "random"}
    assert of[LOCAL_PART].items() <= of[VOTES].items()
    assert of[CONVOLUTION] == {**of[VOTES], "order": "learned"}


def test_planted_roles_have_three_graphs_for_each_number_of_links() -> None:
    roles = [cell.planted for cell in order_cells() if cell.dataset == ROLES and cell.condition == VOTES]
    assert sorted(roles) == sorted((seed, noise) for seed in DATA["planted_seeds"] for noise in DATA["noise_links"])


def test_no_figure_of_the_main_tables_is_one_of_those_that_settings_were_chosen_by() -> None:
    tried = [cell for cell in order_cells() if cell.tags[0] == TRIED]
    assert {cell.dataset for cell in tried} == {"chameleon", "mushroom-body-left"}
    chosen = [cell.candidates[0] for cell in tried if cell.condition == "as chosen"]
    assert chosen == [condition.options for condition in conditions("real") if condition.name == VOTES] * 2
