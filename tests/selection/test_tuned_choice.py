"""The choice between a non-local model and its local part after a search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from experiment_samples import small_graph
from nlgnn.errors import OptionError
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure
from nlgnn.selection import tuned_choice
from nlgnn.selection.tuned_choice import Decision, check_options, decide_tuned
from nlgnn.training.fit import fit
from nlgnn.training.run_folder import Run
from nlgnn.tuning.space import check_space
from nlgnn.tuning.tune import tune


def runs(*validation: float | None, test: float = 50.0) -> list[Run]:
    """None is a run that failed."""
    return [
        Run(index, index, "random-60", index, failure="it failed")
        if figure is None
        else Run(index, index, "random-60", index, val={"accuracy": figure}, test={"accuracy": test})
        for index, figure in enumerate(validation)
    ]


def test_the_reason_has_both_figures() -> None:
    ahead = Decision("nlgcn", "gcn", 61.5, 61.0, "accuracy")
    assert ahead.reason == "Chose nlgcn: its validation accuracy (61.50 %) is above that of gcn (61.00 %)."
    level = Decision("nlgcn", "gcn", 61.0, 61.0, "accuracy")
    assert level.reason == "Chose gcn: its validation accuracy (61.00 %) is not below that of nlgcn (61.00 %)."
    assert Decision("nlgcn", "gcn", None, 60.0, "accuracy").reason == "Chose gcn: the training of nlgcn failed."
    assert Decision("nlgcn", "gcn", 60.0, None, "accuracy").chosen == "nlgcn"


def test_options_must_suit_every_model_that_may_be_chosen() -> None:
    check_options("graph", None, {"kernel_size": 3, "epochs": 5})
    with pytest.raises(OptionError, match=r"nlmlp has no option 'heads'\. The model auto may choose nlmlp"):
        check_options("graph", None, {"heads": 2})
    with pytest.raises(OptionError, match="no preset"):
        check_options("graph", "papr", {})
    with pytest.raises(OptionError, match=r"(?s)kernel_size=2.* The model auto may choose nlmlp"):
        check_options("graph", None, {"kernel_size": [3, 2]}, check_space)
    check_options("graph", None, {"order": "learned", "space_dim": 4})
    with pytest.raises(OptionError, match="space_dim=4 changes nothing"):
        check_options("graph", None, {"space_dim": 4})


def test_choice_after_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local part is trained with the options of the best setting, as the search trained that."""
    graph = small_graph()
    options: dict[str, Any] = {"hidden": 4, "lr": 0.05, "dropout": 0.5, "weight_decay": 0.0}
    searched = {**options, "search_epochs": 4, "search_splits": 2, "study": tmp_path / "study.db", "progress": False}
    tuned = tune(graph, "nlmlp", "geom-gcn", kernel_size=[3, 5], **searched)
    factory, recipe = configure("mlp", graph, epochs=4, **options)
    alone = fit(factory, graph, make_splits(graph, "geom-gcn", 2), recipe, progress=False)
    mean = fmean(run.val["accuracy"] for run in alone)
    assert decide_tuned(graph, tuned, progress=False)[0] == Decision("nlmlp", "mlp", tuned.best.mean, mean, "accuracy")
    ahead, behind = (replace(tuned, rows=(replace(tuned.best, mean=figure),)) for figure in (101.0, 0.0))
    assert decide_tuned(graph, ahead, progress=False)[1] == tuned.command
    command = decide_tuned(graph, behind, progress=False)[1]
    assert "--model mlp --splits geom-gcn" in command
    assert "--hidden 4" in command
    assert "--kernel-size" not in command
    monkeypatch.setattr(tuned_choice, "fit_settings", lambda *_, **__: [runs(99, None)])
    assert decide_tuned(graph, behind)[0].chosen == "nlmlp"  # one failed run is a failed setting, as in the search
