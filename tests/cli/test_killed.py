"""kill -9 at many moments of train, tune, predict, store and several processes: what is there is whole, and ends alike.

Half of the moments are points in time, half are just before a file is opened, renamed or removed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from warm_process import Ended, WarmProcess

from nlgnn.training.run_folder import RunFolder
from run_folders import assert_same_folder, files_in

TRAIN = ("train", "mushroom-body", "--model", "nlmlp", "--runs", "2", "--epochs", "8", "--out", "X")
AUTO = ("train", "mushroom-body", "--time-budget", "none", "--runs", "2", "--epochs", "5", "--out", "X")
PREDICT = ("predict", "X", "--all", "--out", "labels.csv", "--force")
TUNE = ("tune", "mushroom-body", "--model", "mlp", "--settings", "all", "--search-splits", "1", "--search-epochs", "8")
TUNE += ("--hidden", "4", "--dropout", "0.5", "--lr", "0.01,0.05,0.1", "--weight-decay", "0,0.0005", "--json")
TUNE += ("--study", "study.db")
STORE = ("store", "--nodes", "nodes.csv", "--edges", "edges.csv", "--label", "kind", "--renumber", "S")
RANKS = 2
# Many moments at which something is written, and no long wait for what a killed process had taken.
CONSTANTS = {
    "nlgnn.training.fit:CHECKPOINT_SECONDS": -1.0,
    "nlgnn.selection.evidence:FEWEST_SPLITS": 2,
    "nlgnn.selection.evidence:HEADS": 1,
    "nlgnn.selection.evidence:SHORT": {"epochs": 3},
    "nlgnn.selection.diagnosis:MOST_SPLITS": 2,
    "nlgnn.selection.portfolio:DATA": {
        "non_local": {},
        "entry": [{"name": name, "model": name} for name in ("logistic", "gcn")],
    },
    "nlgnn.selection.ensemble:FEWEST_NODES": 5,
    "nlgnn.selection.race:MOST_SEEDS": 1,
    "nlgnn.tuning.tune:BATCH": 2,
    "nlgnn.tuning.tune:SECONDS_BETWEEN_LOOKS": 0.2,
    "nlgnn.tuning.study:HEARTBEAT_SECONDS": 1,
    "nlgnn.tuning.study:GRACE_SECONDS": 2,
    "nlgnn.training.processes:CONNECT_SECONDS": 10,
}

MANY = int(os.environ.get("NLGNN_KILLS", "0"))  # as `make kills` sets it: also at every change of a file


def numbers(few: int, share: float) -> range:
    """The numbers of the kills of a command: few, or a share of many."""
    return range(int(share * MANY)) if MANY else range(few)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
]


class Whole(NamedTuple):
    """A command that came to its end, and the folder that it ran in."""

    ended: Ended
    folder: Path


class Killer:
    """Runs commands to their end, or to a moment that is drawn from how long and how busy they were then."""

    def __init__(self, warm: WarmProcess) -> None:
        self.warm = warm

    def finish(self, command: tuple[str, ...], folder: Path, **ranks: int) -> Ended:
        ended = self.warm.run(*command, folder=folder, constants=CONSTANTS, **ranks)
        assert {ended.code, *ended.others} == {0}, ended.err
        return ended

    def kill(
        self, command: tuple[str, ...], number: int, whole: Whole, given: Path, folder: Path, **ranks: int
    ) -> Path:
        """The folder that is left, which held what `given` holds; another where the end came before the moment.

        Of several ranks, the others must end by themselves: with an error, or well where the killed one was done.
        """
        draw = random.Random(number)
        for attempt in range(8):
            place = shutil.copytree(given, folder / str(attempt))
            if number % 2:
                moment = {"kill_after": draw.uniform(0, whole.ended.seconds)}
            else:
                change = number // 2 + attempt if MANY else draw.randrange(whole.ended.changes)
                moment = {"kill_before_change": change % whole.ended.changes}
            print(f"{' '.join(command)}: {moment}")  # for the report of a failure
            ended = self.warm.run(*command, folder=place, constants=CONSTANTS, **moment, **ranks)
            assert {0, 2}.issuperset(ended.others), ended.others
            if ended.code == -signal.SIGKILL:
                return place
            assert ended.code == 0, ended.err
        pytest.fail("it was never killed")


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    with WarmProcess(tmp_path_factory.mktemp("notes"), (TRAIN, PREDICT, TUNE)) as warm:
        yield Killer(warm)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty")


@pytest.fixture(scope="module")
def trained(killer: Killer, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("trained")
    return Whole(killer.finish(TRAIN, folder), folder)


@pytest.mark.parametrize("number", numbers(8, 0.24))
def test_train(killer: Killer, trained: Whole, empty: Path, tmp_path: Path, number: int) -> None:
    place = killer.kill(TRAIN, number, trained, empty, tmp_path)
    wanted = files_in(trained.folder)
    if (place / "X").exists():
        runs = RunFolder.open(place / "X").finished_runs()  # weights with their checksums, curves
        found = files_in(place)
        for run in runs:
            assert found[f"X/models/{run.index:02d}.safetensors"] == wanted[f"X/models/{run.index:02d}.safetensors"]
        if "X/predictions.parquet" in found:
            assert len(runs) == 2
            assert found["X/predictions.parquet"] == wanted["X/predictions.parquet"]
        if "X/report.html" in found:
            assert found["X/report.html"].rstrip().endswith(b"</html>")
        killer.finish(("train", "--resume", "X"), place)
    else:
        killer.finish(TRAIN, place)
    assert files_in(place).keys() == wanted.keys()
    assert_same_folder(place / "X", trained.folder / "X", told_anew=["report.html"])


@pytest.fixture(scope="module")
def chosen(killer: Killer, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("chosen")
    return Whole(killer.finish(AUTO, folder), folder)


@pytest.mark.parametrize("number", numbers(5, 0.16))
def test_automatic_choice(killer: Killer, chosen: Whole, empty: Path, tmp_path: Path, number: int) -> None:
    """Killed in a training, between two of them or in the decision, under its final name all the time."""
    place = killer.kill(AUTO, number, chosen, empty, tmp_path)
    killer.finish(("train", "--resume", "X") if (place / "X").exists() else AUTO, place)
    found, wanted = files_in(place), files_in(chosen.folder)
    assert found.keys() == wanted.keys()
    assert found["X/choice.json"] == wanted["X/choice.json"]
    for model in (chosen.folder / "X" / "models").iterdir():
        assert_same_folder(place / "X" / "models" / model.name, model)


def figures(printed: str) -> dict[str, Any]:
    """What a search found, without the times that it took."""
    found: dict[str, Any] = json.loads(printed)
    for setting in found["settings"]:
        del setting["seconds"]
    return found


@pytest.fixture(scope="module")
def tuned(killer: Killer, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("tuned")
    return Whole(killer.finish((*TUNE, "--no-halving"), folder), folder)


@pytest.mark.parametrize("number", numbers(5, 0.15))
def test_tune(killer: Killer, tuned: Whole, empty: Path, tmp_path: Path, number: int) -> None:
    """Which settings are dropped on the way depends on which came first, and so on who was killed. Others do not."""
    command = TUNE if number < 5 else (*TUNE, "--no-halving")
    place = killer.kill(command, number, tuned, empty, tmp_path)
    found, wanted = (figures(ended.out) for ended in (killer.finish(command, place), tuned.ended))
    if number < 5:
        ends = {json.dumps(one["setting"]): one for one in wanted["settings"]}
        assert sorted(json.dumps(one["setting"]) for one in found["settings"]) == sorted(ends)
        assert all(one["dropped"] or one == ends[json.dumps(one["setting"])] for one in found["settings"])
    else:
        assert found == wanted
    assert files_in(place).keys() == files_in(tuned.folder).keys()


@pytest.fixture(scope="module")
def predicted(killer: Killer, trained: Whole, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = shutil.copytree(trained.folder, tmp_path_factory.mktemp("predicted"), dirs_exist_ok=True)
    return Whole(killer.finish(PREDICT, folder), folder)


@pytest.mark.parametrize("number", numbers(5, 0.15))
def test_predict(killer: Killer, trained: Whole, predicted: Whole, tmp_path: Path, number: int) -> None:
    given, old = shutil.copytree(trained.folder, tmp_path / "given"), b"what was there before"
    (given / "labels.csv").write_bytes(old)
    place = killer.kill(PREDICT, number, predicted, given, tmp_path / "killed")
    wanted = files_in(predicted.folder)
    assert (place / "labels.csv").read_bytes() in (old, wanted["labels.csv"])
    killer.finish(PREDICT, place)
    assert files_in(place) == wanted


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    draw = random.Random(0)
    nodes = [f"v{one},{draw.random()},{'ab'[one % 2]}" for one in range(60)]
    edges = [f"v{draw.randrange(60)},v{draw.randrange(60)}" for _ in range(150)]
    (folder / "nodes.csv").write_text("\n".join(["id,size,kind", *nodes]))
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]))
    return folder


@pytest.fixture(scope="module")
def stored(killer: Killer, tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = shutil.copytree(tables, tmp_path_factory.mktemp("stored"), dirs_exist_ok=True)
    return Whole(killer.finish(STORE, folder), folder)


@pytest.mark.parametrize("number", numbers(5, 0.15))
def test_store(killer: Killer, tables: Path, stored: Whole, tmp_path: Path, number: int) -> None:
    """The folder of a store is there with all of its files, or not at all; a later call removes what a kill left."""
    place = killer.kill(STORE, number, stored, tables, tmp_path)
    wanted = files_in(stored.folder)
    if (place / "S").exists():
        assert files_in(place / "S") == files_in(stored.folder / "S")
    else:
        killer.finish(STORE, place)
        assert files_in(place) == wanted


@pytest.fixture(scope="module")
def trained_by_ranks(killer: Killer, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("trained-by-ranks")
    return Whole(killer.finish(TRAIN, folder, ranks=RANKS), folder)


@pytest.mark.parametrize("number", numbers(5, 0.15))
def test_train_over_processes(
    killer: Killer, trained_by_ranks: Whole, empty: Path, tmp_path: Path, number: int
) -> None:
    """Kill the rank that writes files before it changes one, or any rank after some time."""
    killed = number // 2 % RANKS if number % 2 else 0
    place = killer.kill(TRAIN, number, trained_by_ranks, empty, tmp_path, ranks=RANKS, killed_rank=killed)
    killer.finish(("train", "--resume", "X") if (place / "X").exists() else TRAIN, place, ranks=RANKS)
    assert files_in(place).keys() == files_in(trained_by_ranks.folder).keys()
    assert_same_folder(place / "X", trained_by_ranks.folder / "X")
