"""Run folders and targets that somebody has tampered with, given to `nlgnn predict` and its like."""

from __future__ import annotations

import csv
import json
import pickle
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest

from cli_samples import Command, everything, refused
from hostile_tables import BAD_NODES, encoded
from nlgnn.cli import main as cli

# Names that would leave the folder, and cells that a spreadsheet would take for formulas.
IDS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "../../up", "-5"]
CLASSES = ["=1+1", "../../class"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training on forty nodes with hostile names, of which the first six have no label."""
    folder = tmp_path_factory.mktemp("made")
    ids = [*IDS, *(f"n{number}" for number in range(34))]
    with open(folder / "nodes.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [["id", "topic", "size"]]
            + [[name, "" if number < 6 else CLASSES[number % 2], number % 5] for number, name in enumerate(ids)]
        )
    jaxtyping.config.update("jaxtyping_disable", True)  # as users have it
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        flags = ["--nodes", "nodes.csv", "--label", "topic", "--model", "mlp", "--runs", "2", "--epochs", "2"]
        with pytest.raises(SystemExit) as ended:
            cli.main(["train", *flags, "--out", "X"])
    jaxtyping.config.update("jaxtyping_disable", False)
    assert not ended.value.code
    assert {path.name for path in folder.iterdir()} == {"nodes.csv", "X"}
    return folder


@pytest.fixture
def trained(made: Path, command: Command, tmp_path: Path) -> Path:
    """A copy to tamper with, in the folder of the command."""
    shutil.copytree(made / "X", tmp_path / "X")
    return Path("X")


def check_refused(command: Command, what: str, *arguments: str) -> None:
    before = everything()
    refused(command(*(arguments or ("predict", "X", "--out", "labels.csv"))), what)
    assert everything() == before


USES = {
    "predict": ("predict", "X", "--out", "labels.csv"),
    "report": ("report", "X"),
    "explain": ("explain", "X", "n3"),
    "export": ("export", "X", "model.onnx"),
    "resume": ("train", "--resume", "X"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_weights_that_were_tampered_with(command: Command, trained: Path, use: tuple[str, ...]) -> None:
    """A number in them changes: the file is a good one still, but not the one that was written."""
    file = trained / "models/01.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 64
    file.write_bytes(content)
    check_refused(command, r"X/models/01\.safetensors is damaged: its checksum differs", *use)


class Harmful:
    """Were it unpickled, a file would be there."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("harm"),)


@pytest.mark.parametrize("has_checksums", [True, False], ids=["checksums", "no checksums"])
def test_a_pickle_in_place_of_weights(command: Command, trained: Path, has_checksums: bool) -> None:
    (trained / "models/00.safetensors").write_bytes(pickle.dumps(Harmful()))
    if not has_checksums:
        summary = json.loads((trained / "summary.json").read_text())
        summary["weights"] = {}
        (trained / "summary.json").write_text(json.dumps(summary))
    for use in USES.values():
        check_refused(command, r"X/models/00\.safetensors is damaged", *use)


TAMPERED: dict[str, tuple[str, tuple[str | int, ...], object, str]] = {
    "a run outside": ("summary.json", ("runs", 0, "index"), "../../../secret", r"X cannot be read as a run folder"),
    "a run that no split is for": ("summary.json", ("runs", 0, "index"), 7, r"07\.safetensors is missing"),
    "a graph outside": ("config.json", ("tables", "nodes"), "../../../nowhere.csv", r"nowhere\.csv, which is not"),
    "a graph that is a folder": ("config.json", ("tables", "nodes"), "/", r"/ is a folder"),
    "a path that is a number": ("config.json", ("tables", "nodes"), 3, r"config\.json: tables\.nodes: .* string"),
    "no such role": ("config.json", ("tables", "shell"), "rm", r"config\.json: .*'shell'"),
    "a module for a model": ("config.json", ("model",), "os.system", r"no model 'os\.system'"),
    "a model of another width": ("config.json", ("model_arguments", "hidden_channels"), 5, r"holds another training"),
    "no width": ("config.json", ("model_arguments", "hidden_channels"), "wide", r"X/config\.json: "),
    "no such argument": ("config.json", ("model_arguments", "shell"), "rm", r"X/config\.json: .*'shell'"),
    "no such option": ("config.json", ("recipe", "lr"), "fast", r"lr='fast'"),
    "a newer format": ("config.json", ("format_version",), 2, r"X was written by a newer version \(format 2\)"),
    "no format": ("config.json", ("format_version",), "one", r"X cannot be read as a run folder"),
}


def write_into(path: Path, keys: tuple[str | int, ...], value: object) -> None:
    content = place = json.loads(path.read_text())
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(("file", "keys", "value", "what"), TAMPERED.values(), ids=TAMPERED)
def test_json_that_was_tampered_with(
    command: Command, trained: Path, file: str, keys: tuple[str | int, ...], value: object, what: str
) -> None:
    write_into(trained / file, keys, value)
    check_refused(command, what)


def places(value: object, keys: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Of everything in what JSON holds."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*keys, key)
        yield from places(inner, (*keys, key))


@pytest.mark.parametrize("numbers", [range(20), pytest.param(range(20, 300), marks=pytest.mark.slow)], ids=str)
def test_any_value_of_the_wrong_type(command: Command, trained: Path, numbers: range) -> None:
    """It may be one that nobody looks at; otherwise it is said what is wrong."""
    for number in numbers:
        draw = random.Random(number)
        file = trained / draw.choice(["config.json", "summary.json"])
        whole = file.read_text()
        keys = draw.choice(list(places(json.loads(whole))))
        write_into(file, keys, draw.choice([None, "../../../etc/passwd", -1, [1], {"a": 1}, 1e300, True]))
        outcome = command("predict", "X", "--out", "labels.csv")
        if outcome.code:
            refused(outcome, ".")
            assert not Path("labels.csv").exists()
        Path("labels.csv").unlink(missing_ok=True)
        file.write_text(whole)


def test_nothing_in_the_table_is_a_formula(command: Command, trained: Path) -> None:
    assert command("predict", "X", "--out", "labels.csv").code == 0
    with open("labels.csv", newline="") as file:
        header, *rows = list(csv.reader(file))
    assert [row[0] for row in rows] == [f"'{name}" for name in IDS[:4]] + IDS[4:]  # -5 is a number
    assert {row[1] for row in rows} <= {"'=1+1", "../../class"}
    assert [name for name in header if name.startswith(("=", "+", "-", "@"))] == []


TARGETS = {
    "a device": ("full.csv", r"full\.csv cannot be written: it is .*not an ordinary file"),
    "a device by its name": ("/dev/full", r"/dev/full cannot be written"),
    "a folder": ("folder.csv", r"folder\.csv cannot be written"),
    "below a file": ("X/config.json/l.csv", r"l\.csv cannot be written: there is no folder X/config\.json"),
    "nowhere": ("../nowhere/l.csv", r"there is no folder \.\./nowhere"),
    "a name that is too long": (f"{'l' * 300}.csv", r"cannot be written: File name too long"),
}


@pytest.mark.parametrize(("target", "what"), TARGETS.values(), ids=TARGETS)
def test_where_labels_cannot_go(command: Command, trained: Path, target: str, what: str) -> None:
    Path("full.csv").symlink_to("/dev/full")
    Path("folder.csv").mkdir()
    check_refused(command, what, "predict", "X", "--out", target)
    assert Path("/dev/full").is_char_device()


UNREADABLE = ["a short row", "latin-1"]


@pytest.mark.parametrize("name", UNREADABLE)
def test_new_nodes(command: Command, trained: Path, name: str) -> None:
    content, what = BAD_NODES[name]
    Path("new.csv").write_bytes(encoded(content))
    check_refused(command, rf"new\.csv{what}", "predict", "X", "--nodes", "new.csv", "--out", "labels.csv")
