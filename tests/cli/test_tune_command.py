"""nlgnn tune."""

from __future__ import annotations

import json
import re
import shlex
import signal
from pathlib import Path

import pytest

from cli_samples import Command, everything, refused
from each_of import each_of
from nlgnn.cli import main as cli
from nlgnn.cli.tune import report_folder
from nlgnn.selection import evidence
from nlgnn.tuning import tune
from nlgnn.tuning.space import read_space

TUNE = ["tune", "mushroom-body-left", "--model", "nlgcn", "--search-epochs", 4, "--search-splits", 2]
AUTO = ["tune", "mushroom-body-left", "--model", "auto", "--search-epochs", 2, "--settings", 1]
TUNE += ["--hidden", "4,8", "--lr", "0.01,0.1", "--dropout", 0, "--weight-decay", 0, "--kernel-size", 3]


def test_a_search_and_the_command_that_it_ends_with(command: Command) -> None:
    done = command(*TUNE)
    assert done.code == 0, done.err
    assert "Search: nlgcn on mushroom-body-left" in done.out
    assert len(re.findall(r"^[1-4] +[48] +0\.\d+ +\d+\.\d ± \d+\.\d +4 +\d+\.\d$", done.out, flags=re.MULTILINE)) == 4
    words = " ".join(done.out.split())
    assert "4 settings of a grid of 4; mean ± sample standard deviation over the first 2 splits, protocol" in words
    assert "The importance of options is unknown: 4 settings are too few." in words
    assert "study: runs/tune-mushroom-body-left-nlgcn.db" in words
    winner, report = done.out.splitlines()[-2:]
    assert report == "report: runs/tune-mushroom-body-left-nlgcn/report.html"
    page = Path("runs/tune-mushroom-body-left-nlgcn/report.html").read_text()
    assert [part for part in (winner, "Validation score by hidden", "Validation score by lr") if part not in page] == []
    assert winner.startswith("nlgnn train mushroom-body-left --model nlgcn --splits random-60 --preset")
    trained = command(*shlex.split(winner)[1:], "--runs", 1, "--epochs", 2, "--out", "X")
    assert trained.code == 0, trained.err
    assert command(*TUNE).out.splitlines()[-2:] == [winner, report]  # at once, from the study


def test_json_has_every_setting(command: Command) -> None:
    done = command(*TUNE, "--json", "--study", "my.db", "--settings", 3)
    found = json.loads(done.out)
    assert len(found["settings"]) == 3
    assert found["settings"][0]["setting"].keys() == {"hidden", "lr"}
    assert found["options"]["kernel_size"] == 3
    assert found["command"].startswith("nlgnn train mushroom-body-left")
    assert Path("my.db").exists()
    assert done.err == "report: my/report.html\n"
    assert Path("my/report.html").exists()


def test_a_report_that_cannot_be_written_is_no_failure(command: Command) -> None:
    Path("my").write_text("no folder")
    done = command(*TUNE, "--study", "my.db", "--settings", 1)
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith("nlgnn train mushroom-body-left")
    assert done.err == "no report: my/report.html cannot be written: File exists.\n"


def test_where_the_report_goes() -> None:
    assert report_folder("there/my.study.db") == Path("there/my.study")
    assert report_folder("there/study") == Path("there/study-report")
    assert report_folder("postgresql://host/database", "../../etc/näme 1.2") == Path("runs/-etc-näme-1-2")


def test_another_search_in_the_same_study_is_told_apart(command: Command) -> None:
    assert command(*TUNE, "--study", "s.db", "--settings", 1).code == 0
    done = command(*TUNE, "--study", "s.db", "--settings", 1, "--order", "random")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0] == "error: s.db holds another search: order was not set, now random."


@pytest.mark.parametrize(
    ("model", "given"),
    [
        ("nlmlp", []),
        ("nlmlp", ["--order", "learned", "--space-dim", "4,8", "--space-radius", "4,8"]),
        ("nl-dirgcn", []),  # of more options than there is room for in one table
    ],
)
def test_no_word_is_broken_at_80_columns(
    command: Command, model: str, given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli.console, "width", 80)
    done = command("tune", "mushroom-body-left", "--model", model, "--search-epochs", 2, "--settings", 1, *given)
    assert done.code == 0, done.err
    table, caption = done.out.partition("1 setting of a grid")[::2]
    space = read_space(model, dict(zip([flag[2:].replace("-", "_") for flag in given[::2]], given[1::2], strict=True)))
    wanted = {word for name in space.searched for word in name.split("_")}
    assert {word for word in {*wanted, "validation", "accuracy", "epochs"} if word not in table} == set()
    assert "one setting is too few" in caption


def test_config_file_equals_the_same_flags(command: Command) -> None:
    Path("c.toml").write_text(
        'graph = "mushroom-body-left"\nmodel = "nlgcn"\nsearch-epochs = 4\nsearch_splits = 2\nsettings = "all"\n'
        "hidden = [4, 8]\nlr = [0.01, 0.1]\ndropout = 0\nweight_decay = 0.0\nkernel_size = [3]\n"
    )
    assert command(*TUNE, "--study", "s.db").code == 0
    again = command("tune", "--config", "c.toml", "--study", "s.db")  # another search would be refused
    assert again.code == 0, again.err


def test_ctrl_c_says_how_to_go_on(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "fit_settings", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    done = command(*TUNE)
    assert (done.code, done.out) == (130, "")
    assert "Finished settings are kept: the same command continues from here." in done.err


@each_of(
    ("given", "words"),
    [
        (["--hidden", "4,x"], "hidden='x'"),
        (["--hidden", ","], "hidden has no values"),
        (["--dropout", "0,2"], "dropout='2': input should be less than 1"),
        (["--threads", "1,2"], "threads cannot be searched over"),
        (["--heads", "1,2"], "nlgcn has no option 'heads'"),
        (["--settings", "many"], "settings='many'"),
        (["--search-epochs", "0"], "search_epochs=0"),
        (["--splits", "nosuch"], "no splits 'nosuch'"),
        (["--preset", "nosuch"], "no preset 'nosuch'"),
        (["--study", "text.db"], "text.db cannot be used: file is not a database"),
        (["--study", "text.db/study.db"], "text.db/study.db cannot be used"),
        (["--storage", "mysql://host/database"], "not the address of a PostgreSQL database"),
        (["--config", "text.db"], "text.db cannot be read as TOML"),
    ],
)
def test_mistakes_are_told_in_two_lines(command: Command, given: list[str], words: str) -> None:
    Path("text.db").write_text("no database at all")
    done = command(*TUNE, *given)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert len(done.err.splitlines()) == 2
    assert not Path("runs").exists()


def test_a_list_in_toml_must_have_values(command: Command) -> None:
    Path("c.toml").write_text("hidden = []\n")
    done = command("tune", "mushroom-body-left", "--config", "c.toml")
    assert (done.code, "hidden has no values" in done.err) == (2, True)


def test_no_graph(command: Command) -> None:
    assert "No graph is named" in command("tune").err


def test_auto_searches_over_the_non_local_model_of_the_diagnosis(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(evidence.SHORT, "epochs", 2)
    done = command(*AUTO, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["model"] in ("nlmlp", "nlgcn", "nlgat")
    assert found["choice"]["chosen"] in (found["model"], found["model"].removeprefix("nl"))
    assert f"--model {found['choice']['chosen']} " in found["command"]
    assert done.err.startswith("Diagnosis: ")
    shown = command(*AUTO)  # from the study
    assert f"Chose {found['choice']['chosen']}: " in shown.out
    assert shown.out.splitlines()[-2] == found["command"]
    page = Path(f"runs/tune-mushroom-body-left-{found['model']}/report.html").read_text()
    assert f"Chose {found['choice']['chosen']}: " in page
    assert "Diagnosis: " in page


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--heads", "1,2"], "nlmlp has no option 'heads'. The model auto may choose nlmlp."),
        (["--kernel-size", "3,2"], "give an odd number"),
        (["--lr", "0.1,x"], "lr='x'"),
    ],
)
def test_auto_checks_every_value_before_the_diagnosis(
    command: Command, monkeypatch: pytest.MonkeyPatch, given: list[str], words: str
) -> None:
    monkeypatch.delattr(evidence, "fit_settings")
    done = command(*AUTO, *given)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_an_address_in_place_of_a_file(command: Command) -> None:
    refused(command(*TUNE, "--study", "postgresql://host/database"), "is an address", "--storage")
    assert not everything()
