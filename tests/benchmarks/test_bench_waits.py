"""What users wait for: processes are measured, and their time is shared out among packages."""

from __future__ import annotations

import cProfile
from functools import partial
from pathlib import Path

import pytest

from benchmarks import waits
from benchmarks.cases import Case
from benchmarks.page import goal_rows, profile_rows
from benchmarks.waits import Wait, measure_wait, package, package_shares, run_python
from nlgnn.errors import NlgnnError
from nlgnn.graph.homophily import node_homophily


def test_typo() -> None:
    result = measure_wait(Wait(waits.typo, rounds=1, code=2))
    assert result["rounds"] == 1
    assert 0 < sum(result["profile"].values()) <= 1.001
    case = Case("wait-typo", "typo", "", dict)
    assert goal_rows([case], {"wait-typo": result})[0]["what"] == "typo"
    assert "%" in profile_rows([case], {"wait-typo": result})[0]["where"]


@pytest.mark.slow
def test_tables_are_read_and_reports_written(tmp_path: Path) -> None:
    assert run_python(waits.tables(100, tmp_path), 0) > 0
    arguments = partial(waits.report, "mushroom-body")(tmp_path)
    (tmp_path / "run" / "report.html").unlink()
    run_python(arguments, 0)
    assert (tmp_path / "run" / "report.html").exists()


def test_failure_is_told() -> None:
    with pytest.raises(NlgnnError, match="ended with code 3"):
        run_python(["-c", "raise SystemExit(3)"], 0)


def test_packages() -> None:
    assert package("<frozen importlib._bootstrap>") == "import of modules"
    assert package("/a/site-packages/torch/nn/x.py") == "torch"
    assert package("/a/site-packages/six.py") == "six"
    assert package(str(Path(node_homophily.__code__.co_filename))) == "nlgnn"
    assert package("/usr/lib/python3/json/decoder.py") == "Python"


def test_compiled_functions_count_for_their_callers(tmp_path: Path) -> None:
    profile = cProfile.Profile()
    profile.runcall(lambda: sorted(range(100_000), key=lambda number: -number))
    profile.dump_stats(tmp_path / "profile")
    assert sum(package_shares(tmp_path / "profile").values()) == pytest.approx(1, abs=0.01)
