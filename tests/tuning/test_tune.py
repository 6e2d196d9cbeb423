"""tune: what is searched, what is chosen, that it goes on, and that test labels have no say."""

from __future__ import annotations

import math
import shlex
import signal
import warnings
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest

import nlgnn
from each_of import each_of
from nlgnn.errors import NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure
from nlgnn.models.options import setting_words
from nlgnn.training.fit import fit
from nlgnn.tuning import tune
from nlgnn.tuning.result import Tuned
from nlgnn.tuning.study import StudyError
from nlgnn.tuning.tune import SearchProgress
from training_samples import easy_graph, fit_module

GRAPH = easy_graph(60, 3)
SPACE: dict[str, Any] = {"hidden": [2, 4], "lr": [0.01, 0.1], "dropout": [0.0, 0.5], "weight_decay": 0.0}
SPACE |= {"stopping": "never", "device": "cpu"}


def quick(path: Path, graph: Graph = GRAPH, model: str = "mlp", **given: Any) -> Tuned:
    options = {"search_epochs": 12, "search_splits": 2, "settings": "all", "preset": "paper", "progress": False}
    return tune.tune(graph, model, study=path / "study.db", **{**options, **SPACE, **given})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    """Every setting trained to its end."""
    return quick(tmp_path_factory.mktemp("whole"), halving=False)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study of one setting."""
    quick(folder := tmp_path_factory.mktemp("begun"), settings=1)
    return folder


def figures(tuned: Tuned) -> dict[str, float | None]:
    return {setting_words(row.setting): row.mean for row in tuned.rows}


def test_every_setting_has_the_figures_that_it_has_alone(whole: Tuned) -> None:
    assert len(whole.rows) == whole.space.size == 8
    splits = make_splits(GRAPH, "random-60", 2)
    for row in whole.rows:
        factory, recipe = configure("mlp", GRAPH, "paper", **{**whole.space.fixed, **row.setting, "epochs": 12})
        values = [run.val["accuracy"] for run in fit(factory, GRAPH, splits, recipe, progress=False)]
        assert row.mean == pytest.approx(fmean(values))
        assert row.std == pytest.approx(stdev(values))
        assert row.epochs == 12
        assert not row.dropped


def test_the_best_comes_first(whole: Tuned) -> None:
    means = [row.mean for row in whole.rows]
    assert means == sorted(means, reverse=True)  # type: ignore[type-var]
    assert whole.best is whole.rows[0]
    assert whole.options == {"weight_decay": 0.0, "stopping": "never", "device": "cpu", **whole.best.setting}


def test_the_command_has_the_options_of_the_best(whole: Tuned) -> None:
    words = shlex.split(replace(whole, graph="texas").command)
    assert words[:9] == ["nlgnn", "train", "texas", "--model", "mlp", "--splits", "random-60", "--preset", "paper"]
    given = dict(zip(words[9::2], words[10::2], strict=True))
    assert given == {f"--{name.replace('_', '-')}": str(value) for name, value in whole.options.items()}
    assert "--epochs" not in given  # the whole schedule


def test_switches_in_the_command(whole: Tuned) -> None:
    best = replace(whole.best, setting={"own_weights": False, "row_norm": True})
    assert replace(whole, graph="texas", rows=(best,)).command.endswith("--no-own-weights --row-norm")


def test_a_graph_without_a_name_is_trained_in_python(tmp_path: Path) -> None:
    found = quick(tmp_path, settings=1, model="gcnii", hidden=4, num_layers=2, own_weights=True, epochs=3)
    names: dict[str, Any] = {"nlgnn": nlgnn, "graph": GRAPH}
    exec(found.command, names)
    assert names["factory"].keywords["own_weights"] is True
    assert {option: getattr(names["recipe"], option) for option in ("lr", "stopping", "epochs")} == {
        option: found.options[option] for option in ("lr", "stopping", "epochs")
    }
    assert len(names["runs"]) == 10


def test_a_split_that_comes_again_is_counted_once(tmp_path: Path) -> None:
    column = {"column": make_splits(GRAPH, "random-60", 1)}
    graph = Graph(GRAPH.x, GRAPH.edge_index, GRAPH.y, name="easy", splits=column)
    found = quick(tmp_path, graph=graph, settings=1)
    assert (found.runs, found.splits) == (2, 1)


def test_halving_drops_some_and_finds_as_good_a_setting(tmp_path: Path, whole: Tuned) -> None:
    halved = quick(tmp_path, search_epochs=12)
    dropped = [row for row in halved.rows if row.dropped]
    assert 0 < len(dropped) < len(halved.rows) == 8
    assert {row.epochs for row in dropped} <= {3.0, 6.0}
    assert all(row.epochs == 12 for row in halved.rows if not row.dropped)
    assert not halved.best.dropped
    assert halved.best.mean == whole.best.mean
    assert halved.importances_of == "validation accuracy at epoch 3"
    assert 0.5 < sum(halved.importances.values()) < 1  # the rest is of several together, or chance


def test_importances_are_of_what_makes_a_difference(whole: Tuned) -> None:
    assert set(whole.importances) == {"hidden", "lr", "dropout"}
    assert next(iter(whole.importances)) == "lr"  # 0.01 learns nothing in twelve epochs
    assert whole.importances_of == "validation accuracy"


def test_an_interrupted_search_goes_on(tmp_path: Path, whole: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[int] = []
    fit_settings = tune.fit_settings

    def interrupted(settings: Any, *rest: Any, **more: Any) -> Any:
        if len(trained) == 4:
            signal.raise_signal(signal.SIGINT)
        runs = fit_settings(settings, *rest, **more)
        trained.extend([len(of_setting) for of_setting in runs])
        return runs

    monkeypatch.setattr(tune, "fit_settings", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quick(tmp_path, halving=False)
    assert len(trained) == 4
    monkeypatch.setattr(tune, "fit_settings", fit_settings)
    assert figures(quick(tmp_path, halving=False)) == figures(whole)
    monkeypatch.setattr(tune, "fit_settings", None)  # now all is there
    assert figures(quick(tmp_path, halving=False)) == figures(whole)


def test_a_search_can_grow(tmp_path: Path) -> None:
    few = quick(tmp_path, settings=3, halving=False)
    more = quick(tmp_path, settings=5, halving=False)
    assert (len(few.rows), len(more.rows)) == (3, 5)
    assert figures(few).items() <= figures(more).items()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"search_epochs": 13}, "search_epochs was 12, now 13"),
        ({"search_splits": 1}, "search_splits was 2, now 1"),
        ({"splits": "random-10"}, "protocol was random-60, now random-10"),
        ({"model": "gcn"}, "model was mlp, now gcn"),
        ({"lr": [0.01, 0.2]}, "lr was .*, now 0.01, 0.2"),
        ({"weight_decay": 0.1}, "weight_decay was .*, now 0.1"),
        ({"graph": easy_graph(60, 3, seed=1)}, "fingerprint"),
        ({"halving": False}, "halving was True, now False"),
    ],
    ids=str,
)
def test_another_search_in_the_same_file_is_refused(begun: Path, changed: dict[str, Any], words: str) -> None:
    with pytest.raises(StudyError, match=words):
        quick(begun, **({"settings": 1} | changed))


def test_how_it_is_computed_is_not_what_is_searched(begun: Path) -> None:
    assert len(quick(begun, settings=1, threads=1, replicas=1).rows) == 1


def test_choices_do_not_depend_on_test_labels(tmp_path: Path) -> None:
    splits = make_splits(GRAPH, "random-60", 2)
    column = {"column": splits}
    y, never_trained = GRAPH.y.copy(), splits[0].test & splits[1].test
    y[never_trained] = np.roll(y[never_trained], 1)
    assert (y != GRAPH.y).sum() > 1
    results = []
    for number, labels in enumerate((GRAPH.y, y)):
        graph = Graph(GRAPH.x, GRAPH.edge_index, labels, name="easy", class_names=GRAPH.class_names, splits=column)
        results.append(quick(tmp_path / str(number), graph=graph, hidden=4))
    assert figures(results[0]) == figures(results[1])
    assert results[0].command == results[1].command


def test_settings_that_fail_are_said_and_never_win(tmp_path: Path) -> None:
    tuned = quick(tmp_path, lr=[0.05, 1e30], halving=False)
    failed = [row for row in tuned.rows if row.failure]
    assert {row.setting["lr"] for row in failed} == {1e30}
    assert all(row.mean is None and not row.dropped for row in failed)
    assert tuned.best.setting["lr"] == 0.05
    assert tuned.rows[-len(failed) :] == tuple(failed)
    with pytest.raises(NlgnnError, match="no setting could be trained"):
        quick(tmp_path / "all", lr=1e30)


def test_an_error_gives_the_settings_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(fit_module, "prepare", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            quick(tmp_path, settings=2)
    monkeypatch.setattr(tune.time, "sleep", lambda _: pytest.fail("waits for itself"))
    assert len(quick(tmp_path, settings=2).rows) == 2


@each_of(
    "given",
    [{"settings": 0}, {"settings": "few"}, {"search_splits": 0}, {"search_epochs": -1}, {"dropout": [0.5, 1.5]}],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_numbers_that_mean_nothing(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(given))):
        quick(tmp_path, **given)
    assert list(tmp_path.iterdir()) == []


def test_batches_are_of_one_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[set[int]] = []
    fit_settings = tune.fit_settings

    def watched(settings: Any, *rest: Any, **more: Any) -> Any:
        widths.append({factory.keywords["hidden_channels"] for factory, _ in settings})
        return fit_settings(settings, *rest, **more)

    monkeypatch.setattr(tune, "fit_settings", watched)
    quick(tmp_path)
    assert widths == [{2}, {4}]


def test_users_see_nothing_of_optuna(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlgnn.tune(GRAPH, "mlp", study=tmp_path / "s.db", settings=2, search_epochs=2, search_splits=1)
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == before


def test_one_setting_is_told_in_the_singular(capsys: pytest.CaptureFixture[str]) -> None:
    with SearchProgress(1, "accuracy") as bar:
        bar.updated = -math.inf
        bar.begin([], 1, 0)
    assert capsys.readouterr().err == "0 of 1 setting, search\n"


def test_an_option_that_changes_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="space_dim=4,8 changes nothing"):
        quick(tmp_path / "study.db", model="nlmlp", space_dim=[4, 8])
    assert not list(tmp_path.iterdir())
