"""The page of a search, of settings that nobody trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chart_checks import check, figures_of
from nlgnn.report.page import Command, Headline
from nlgnn.report.tuning_page import (
    option_rows,
    tuned_sections,
    tuning_parts,
    value_order,
    write_tuning_page,
)
from nlgnn.training.recipe import Recipe
from nlgnn.tuning.result import Tried, Tuned
from nlgnn.tuning.space import Space

ROWS = (
    Tried({"hidden": 48, "lr": 0.05}, 80.0, 2.0, 100.0, 3.0),
    Tried({"hidden": 16, "lr": 0.05}, 78.0, 1.0, 90.0, 2.0),
    Tried({"hidden": 16, "lr": 0.01}, 70.0, 1.0, 75.0, 1.0, dropped=True),
    Tried({"hidden": 48, "lr": 0.01}, None, None, 1.0, 0.1, failure="the loss became infinite"),
)
TUNED = Tuned(
    graph="easy",
    model="nlmlp",
    protocol="random-60",
    splits=3,
    runs=3,
    preset="robust",
    recipe=Recipe(),
    space=Space({"hidden": (48, 16), "lr": (0.05, 0.01)}, {"dropout": 0.5}),
    rows=ROWS,
    importances={"lr": 0.7, "hidden": 0.3},
    importances_of="validation accuracy at epoch 75",
    study="runs/tune-easy-nlmlp.db",
    seconds=3.0,
)


def test_the_best_setting_comes_first_and_the_command_that_trains_it() -> None:
    headline, command, *_ = tuning_parts(TUNED, "nlgnn train easy", "The gate takes mlp.")
    assert isinstance(headline, Headline)
    assert headline.figure == "80.0 ± 2.0 %"
    assert "the best of 4 settings, mean of 3 runs, protocol random-60" in headline.what
    assert headline.sentences[0] == "The setting: dropout=0.5, hidden=48, lr=0.05."
    assert headline.sentences[-1] == "The gate takes mlp."
    assert isinstance(command, Command)
    assert command.words == "nlgnn train easy"


def test_a_row_for_every_setting_that_has_a_figure() -> None:
    rows = option_rows(TUNED, "lr")
    assert [(row["value"], row["validation"], row["state"]) for row in rows] == [
        *(("0.05", 80.0, "best"), ("0.05", 78.0, "finished"), ("0.01", 70.0, "dropped"))
    ]
    assert rows[2]["setting"] == "hidden=16, lr=0.01"
    caption = figures_of(tuning_parts(TUNED, "", ""))["Validation score by lr"].caption
    assert "Dropped settings show the score they had reached. 1 failed, and is left out." in caption


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((0.1, 5e-4, 1), ["0.0005", "0.1", "1"]),
        (("mean", "attention"), ["mean", "attention"]),
        ((None, 16), ["None", "16"]),
    ],
)
def test_numbers_stand_in_their_order(values: tuple[object, ...], shown: list[str]) -> None:
    assert value_order(values) == shown


def test_one_dropped_setting_is_told_in_the_singular() -> None:
    assert " 1 was dropped early" in tuned_sections(TUNED)[0].caption
    twice = replace(TUNED, rows=(*ROWS, replace(ROWS[2], setting={"hidden": 32, "lr": 0.01})))
    assert " 2 were dropped early" in tuned_sections(twice)[0].caption


def test_importances() -> None:
    shares = {row["option"]: row["share"] for row in tuned_sections(TUNED)[1].rows}
    assert shares == {"lr": "70 %", "hidden": "30 %", "several together, or chance": "0 %"}


def test_figures(tmp_path: Path) -> None:
    figures = figures_of(tuning_parts(TUNED, "", ""))
    assert list(figures) == ["Validation score by hidden", "Validation score by lr"]
    for figure in figures.values():
        check(figure)
    drawn = figures["Validation score by hidden"].chart.to_dict()["layer"][0]["encoding"]["x"]
    assert (drawn["title"], drawn["sort"]) == ("hidden", ["16", "48"])
    write_tuning_page(tmp_path / "report.html", TUNED, "nlgnn train easy")
    assert "Search: nlmlp on easy" in (tmp_path / "report.html").read_text()


def test_a_search_over_nothing() -> None:
    one = replace(TUNED, space=Space({}, {}), rows=(Tried({}, 80.0, None, 9.0, 1.0),), importances={}, runs=1)
    parts = tuning_parts(one, "", "")
    assert figures_of(parts) == {}
    headline = parts[0]
    assert isinstance(headline, Headline)
    assert headline.figure == "80.0 %"
    assert "the best of 1 setting, mean of 1 run," in headline.what
    assert headline.sentences[0] == "The setting: all options have their defaults."
