"""Files of other users, and disks without room: what a command may not do is said, and what is there stays whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from warm_process import Ended, WarmProcess

from run_folders import assert_same_folder, files_in

TRAIN = ("train", "--nodes", "nodes.csv", "--label", "label", "--model", "mlp", "--runs", 2, "--epochs", 2)
NODES = "id,label,size\n" + "".join(f"n{i},{'ab'[i % 2] if i % 9 else ''},{i % 5}\n" for i in range(40))
NOBODY = 65534
LEAST = 800  # bytes: enough for what is printed, which goes to files here

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmProcess]:
    rehearsal = ("train", "mushroom-body", "--model", "mlp", "--runs", "1", "--epochs", "1", "--out", "X")
    with WarmProcess(tmp_path_factory.mktemp("notes"), [rehearsal]) as process:
        yield process


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that others may look into, as those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "nodes.csv").write_text(NODES)
        yield Path(name)


def check_refused(ended: Ended, what: str) -> None:
    assert ended.code == 2
    assert ended.out == ""
    *_, first, how = ended.err.splitlines()  # behind what was found in the tables
    assert first.startswith("error: ")
    assert what in first
    assert how
    assert "Traceback" not in ended.err


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may become another user")
class TestAnotherUser:
    @pytest.mark.parametrize("closed", ["nodes.csv", "edges.csv"])
    def test_a_table_that_may_not_be_read(self, warm: WarmProcess, folder: Path, closed: str) -> None:
        (folder / "edges.csv").write_text("source,target\nn1,n2\n")
        (folder / closed).chmod(0o600)
        ended = warm.run(*TRAIN, "--edges", "edges.csv", folder=folder, user=NOBODY)
        check_refused(ended, f"{closed} cannot be read: Permission denied.")
        assert everything(folder) == {"nodes.csv", "edges.csv"}

    def test_a_folder_that_may_not_be_entered(self, warm: WarmProcess, folder: Path) -> None:
        (folder / "private").mkdir(mode=0o700)
        (folder / "private" / "nodes.csv").write_text(NODES)
        ended = warm.run("train", "--nodes", "private/nodes.csv", "--label", "label", folder=folder, user=NOBODY)
        check_refused(ended, "private/nodes.csv cannot be read: Permission denied.")
        ended = warm.run(*TRAIN, "--out", "private/X", folder=folder, user=NOBODY)
        check_refused(ended, "private/X cannot be used: Permission denied.")

    def test_a_folder_that_may_not_be_written(self, warm: WarmProcess, folder: Path) -> None:
        ended = warm.run(*TRAIN, "--out", "X", folder=folder, user=NOBODY)
        check_refused(ended, "X cannot be made: Permission denied.")
        assert everything(folder) == {"nodes.csv"}

    def test_the_run_folder_of_somebody_else(self, warm: WarmProcess, folder: Path) -> None:
        assert warm.run(*TRAIN, "--out", "X", folder=folder).code == 0
        before = files_in(folder)
        check_refused(
            warm.run("predict", "X", "--out", "l.csv", folder=folder, user=NOBODY),
            "l.csv cannot be written: Permission denied.",
        )
        (folder / "X" / "models").chmod(0o700)
        check_refused(
            warm.run("report", "X", folder=folder, user=NOBODY),
            "X/models/00.safetensors cannot be read: Permission denied.",
        )
        (folder / "X" / "config.json").chmod(0o600)
        check_refused(
            warm.run("train", "--resume", "X", folder=folder, user=NOBODY), "X cannot be read as a run folder"
        )
        assert files_in(folder) == before


class TestNoRoom:
    """A limit on the size of files does what a full disk does."""

    def test_for_the_first_file(self, warm: WarmProcess, folder: Path) -> None:
        ended = warm.run(*TRAIN, "--out", "new/folders/X", folder=folder, file_limit=LEAST)
        check_refused(ended, "the folder new/folders/X cannot be made: File too large.")
        assert everything(folder) == {"nodes.csv"}

    def test_for_the_weights(self, warm: WarmProcess, folder: Path) -> None:
        """What is there is enough to go on, with the same end."""
        wide = (*TRAIN, "--hidden", 1024)
        ended = warm.run(*wide, "--out", "X", folder=folder, file_limit=8000)
        check_refused(ended, "X/models/00.safetensors cannot be written")
        assert "nlgnn train --resume X" in ended.err
        assert set(files_in(folder)) == {"nodes.csv", "X/config.json", "X/summary.json"}
        assert warm.run("train", "--resume", "X", folder=folder).code == 0
        assert warm.run(*wide, "--out", "Y", folder=folder).code == 0
        assert_same_folder(folder / "X", folder / "Y", told_anew=["report.html"])

    def test_for_the_report(self, warm: WarmProcess, folder: Path) -> None:
        """The training is whole without it."""
        ended = warm.run(*TRAIN, "--out", "X", folder=folder, file_limit=100_000)
        assert ended.code == 0
        assert "no report: X/report.html cannot be written: File too large" in ended.err
        assert not (folder / "X" / "report.html").exists()
        assert warm.run("predict", "X", "--out", "labels.csv", folder=folder).code == 0

    def test_for_labels(self, warm: WarmProcess, folder: Path) -> None:
        assert warm.run(*TRAIN, "--out", "X", folder=folder).code == 0
        for ending in ("csv", "parquet"):
            (folder / f"labels.{ending}").write_text("what was there before")
            before = files_in(folder)
            arguments = ("predict", "X", "--all", "--force", "--out", f"labels.{ending}")
            ended = warm.run(*arguments, folder=folder, file_limit=LEAST)
            check_refused(ended, f"labels.{ending} cannot be written")
            assert files_in(folder) == before

    @pytest.mark.slow
    def test_for_a_study(self, warm: WarmProcess, folder: Path) -> None:
        tune = ("tune", "mushroom-body", "--model", "mlp", "--settings", 2, "--search-splits", 1, "--search-epochs", 2)
        ended = warm.run(*tune, folder=folder, file_limit=20_000)
        check_refused(ended, "runs/tune-mushroom-body-left-mlp.db cannot be used")

    def test_for_what_is_printed(self, warm: WarmProcess, folder: Path) -> None:
        ended = warm.run("models", folder=folder, printed_to="/dev/full")
        check_refused(ended, "The output cannot be written: No space left on device.")
        assert warm.run(*TRAIN, "--out", "X", folder=folder).code == 0
        ended = warm.run("predict", "X", "--all", "--out", "-", folder=folder, printed_to="/dev/full")
        check_refused(ended, "The output cannot be written: No space left on device.")
