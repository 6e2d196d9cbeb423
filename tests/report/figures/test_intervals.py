"""The answer: what stands where, with which interval, and what is said of it."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import ttest_1samp, ttest_rel

from nlgnn.report.figures.intervals import Answer, figures_of, interval_rows, mean_interval
from nlgnn.report.page import caption
from nlgnn.selection.statistics import SingleRun
from nlgnn.training.replica import Run

OWN = [80.0, 84.0, 82.0, 90.0]


def answer(part: str = "test", **others: list[float | None]) -> Answer:
    return Answer({"nlgcn": OWN, **others}, part, "accuracy", "random-60", ", figures of the best epoch")


def test_headline_has_the_mean_its_interval_runs_and_protocol() -> None:
    low, high = ttest_1samp(OWN, 0).confidence_interval()
    headline = answer().headline("Diagnosis: neighbours help.")
    assert headline.figure == "84.0 %"
    assert headline.what == (
        f"test accuracy of nlgcn, 95 % interval {low:.1f} % to {high:.1f} %, mean of 4 runs, protocol random-60"
    )
    assert headline.sentences == ["Diagnosis: neighbours help."]


def test_words_say_who_is_clearly_ahead() -> None:
    compared = answer(
        worse=[70.0, 75.0, 72.0, 79.0],
        better=[95.0, 98.0, 97.0, 99.0],
        like=[81.0, 83.0, 83.0, 89.0],
        failed=[None] * 4,
    )
    assert compared.words == (
        "Clearly better than worse (+10.0). Not clearly different from like (+0.0). Clearly worse than better (-13.2)."
    )
    headline = compared.headline("")
    assert list(headline.sentences) == [compared.words]


def test_differences_are_paired() -> None:
    other: list[float | None] = [79.0, 80.0, None, 88.0]
    found = answer(other=other).differences["other"]
    assert found is not None
    low, high = ttest_rel([80.0, 84.0, 90.0], [79.0, 80.0, 88.0]).confidence_interval()
    assert (found.low, found.high, found.pairs) == pytest.approx((low, high, 3))


def test_one_run_has_no_interval() -> None:
    alone = Answer({"nlgcn": [81.0], "mlp": [70.0]}, "test", "accuracy", "column", ", figures of the best epoch")
    headline = alone.headline("")
    assert (headline.figure, headline.what) == ("81.0 %", "test accuracy of nlgcn, mean of 1 run, protocol column")
    assert headline.sentences == [caption("single-run")]  # nothing can be said of who is ahead
    assert interval_rows(alone.figures) == [
        {"model": "nlgcn", "mean": 81.0, "low": 81.0, "high": 81.0, "runs": 1},
        {"model": "mlp", "mean": 70.0, "low": 70.0, "high": 70.0, "runs": 1},
    ]
    assert alone.section().rows[1] == {"model": "mlp", "test accuracy %": "70.0", "nlgcn minus it": "–", "runs": "1"}


def test_one_run_is_compared_with_a_constant_answer_on_samples_of_its_nodes() -> None:
    figures, y = {"nlgcn": [81.0], "majority class": [80.0]}, torch.arange(60) % 2
    one = Answer(figures, "test", "accuracy", "column", "")
    constant, right = torch.tensor([[1.0, 0.0]]).expand(60, -1), torch.eye(2)[y]
    lucky = constant.clone()
    lucky[1] = right[1]
    assert one._replace(single=SingleRun("accuracy", right, constant, y)).headline("").figure == "81.0 %"
    alike = one._replace(single=SingleRun("accuracy", lucky, constant, y)).headline("")
    assert alike.figure == "Not clearly better than a constant answer"
    assert alike.what.endswith("mean of 1 run, protocol column: 81.0 %")
    assert one.headline("").figure == "81.0 %"  # without predictions only the sentence is left
    below = one._replace(figures={"nlgcn": [79.0], "majority class": [80.0]})
    assert below.headline("").figure == "Not clearly better than a constant answer"


def test_it_is_said_where_figures_are_of_validation() -> None:
    headline = answer("validation").headline("")
    assert headline.what.startswith("validation accuracy of nlgcn, ")
    assert headline.sentences == [caption("no-test-labels")]


def test_rows_leave_failed_runs_out() -> None:
    rows = interval_rows({"one": [80.0, None, 84.0], "none": [None, None]})
    interval = mean_interval([80.0, 84.0])
    assert interval is not None
    assert interval.high > 100
    assert rows == [{"model": "one", "mean": 82.0, "low": interval.low, "high": 100.0, "runs": 2}]  # no share is above
    assert mean_interval([81.0, 81.0, 81.0]) is None  # which do not tell how sure they are


def test_table() -> None:
    rows = answer(mlp=[70.0, 75.0, None, 79.0]).section().rows
    assert rows[0] == {"model": "nlgcn", "test accuracy %": "84.0 ± 4.3", "nlgcn minus it": "", "runs": "4"}
    assert rows[1]["test accuracy %"] == "74.7 ± 4.5"
    assert rows[1]["nlgcn minus it"].startswith("+10.0 [+")
    assert rows[1]["runs"] == "3"


def test_figures_go_by_the_number_of_the_run() -> None:
    runs = [
        Run(2, 2, "column", 2, val={"accuracy": 60.0}, test={"accuracy": 50.0}),
        Run(0, 0, "column", 0, val={"accuracy": 70.0}, test={}),
        Run(1, 1, "column", 1, failure="loss is nan"),
    ]
    assert figures_of(runs, "accuracy", "test", [0, 1, 2, 3]) == [None, None, 50.0, None]
    assert figures_of(runs, "accuracy", "validation", [2, 1, 0]) == [60.0, None, 70.0]


def test_chart_is_valid() -> None:
    figure = answer(mlp=[70.0, 75.0, 72.0, 79.0]).figure()
    assert figure.chart.to_dict()["height"] == 68
    assert list(figure.tables["rows"]["model"]) == ["nlgcn", "mlp"]
    assert "Protocol random-60" in figure.caption
    assert "the best epoch" in figure.caption
