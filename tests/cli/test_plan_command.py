"""`nlgnn plan`, as users run it."""

from __future__ import annotations

import json

import pytest

from cli_samples import Command, refused
from each_of import each_of


def test_one_case_and_several(command: Command) -> None:
    asked = ["plan", "--nodes", "1e9", "--edges", "1e10", "--bandwidth", "25Gb"]
    done = command(*asked, "--machines", "64")
    assert done.code == 0
    assert "19.32 s" in done.out
    assert "Bottleneck: memory of the halo." in done.out
    (found,) = json.loads(command(*asked, "--machines", "64", "--json").out)
    assert found["step_seconds"]["halo"] == pytest.approx(19.32, abs=0.01)
    assert found["epoch_seconds"] > sum(found["step_seconds"].values())
    table = command("plan", "--nodes", "1e8,1e9", "--machines", "16,64", "--local", "0.9", "--markdown").out
    assert table.count("\n") == 6
    assert "1e+09" in command("plan", "--nodes", "1e8,1e9", "--machines", "16,64").out


@each_of(
    ("flags", "what"),
    [
        (["--nodes", "many"], "nodes=many"),
        (["--nodes", ","], "nodes is empty"),
        (["--nodes", "1e9", "--machines", "0"], "machines=0"),
        (["--nodes", "1e9", "--machines", "2.5"], "machines=2.5"),
        (["--nodes", "10", "--machines", "64"], "64 machines cannot share 10 nodes"),
        (["--nodes", "1e9", "--bandwidth", "25"], "bandwidth=25"),
        (["--nodes", "1e9", "--bandwidth", "0Gb"], "bandwidth=0Gb"),
        (["--nodes", "1e9", "--memory", "64"], "memory=64"),
        (["--nodes", "1e9", "--local", "2"], "local=2"),
        (["--nodes", "1e8,1e9", "--edges", "1,2,3"], "2 numbers of nodes and 3 of edges"),
        (["--nodes", ",".join(["1e9"] * 30), "--machines", "1,2,3,4"], "120 cases"),
        (["--nodes", "1e999"], "nodes=inf"),
        ([], "nodes"),
    ],
)
def test_mistakes(command: Command, flags: list[str], what: str) -> None:
    refused(command("plan", *flags), what)
