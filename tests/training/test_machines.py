"""The cost model of several machines against measurements, and `nlgnn plan` in tests/cli."""

from __future__ import annotations

import runpy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from each_of import each_of
from nlgnn.errors import OptionError
from nlgnn.training.machines import ADVICE, Estimate, Machine, Parts, Workload, estimate, halo_rows

TOOL = Path(__file__).parents[2] / "tools" / "write_machines_page.py"
MACHINE = Machine(bandwidth=25e9 / 8)


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    """The names of the tool that writes the page."""
    return runpy.run_path(str(TOOL))


def test_measured_steps(tool: dict[str, Any]) -> None:
    """Bytes of the model are within 10 % of what was measured, seconds and memory within 15 %."""
    cases = [case for case in tool["measured"]() if case[2]["threads"] == 1]
    assert {figures["processes"] for _, _, figures in cases} == {1, 2, 4}
    for _, work, figures in cases:
        found = estimate(work, tool["ONE_CORE"], figures["processes"])
        sent = figures["bytes sent"] / figures["processes"]
        assert sum(found.sent.values()) == pytest.approx(sent, rel=0.1)
        assert figures["bytes sent"] == pytest.approx(figures["bytes by the model"], rel=0.01)  # by its own halo
        assert sum(found.step) == pytest.approx(figures["CPU seconds"], rel=0.15)
        memory = sum(found.memory.values())
        assert memory > 0.85 * figures["peak bytes"]
        if work.nodes < 1e6:  # a larger part may keep features on disk, which the model leaves out
            assert memory == pytest.approx(figures["peak bytes"], rel=0.15)


def test_the_page_is_the_one_that_the_tool_writes(tool: dict[str, Any]) -> None:
    assert tool["PAGE"].read_text("utf-8") == tool["page"]()


def test_columns_of_the_page_have_different_names(tool: dict[str, Any]) -> None:
    lines = tool["page"]().splitlines()
    heads = [line for line, next_line in pairwise(lines) if next_line.startswith("| ---")]
    assert len(heads) == 2
    for head in heads:
        names = [name.strip() for name in head.strip("|").split("|")]
        assert len(set(names)) == len(names)


def epoch(machines: int = 64, **more: Any) -> Estimate:
    return estimate(Workload(**{"nodes": 1e9, "edges": 1e10} | more), MACHINE, machines)


def test_bottlenecks() -> None:
    assert epoch().bottleneck == "memory of the halo"
    assert epoch(256).bottleneck == "halo"
    assert epoch(16, local=0.9).on_disk
    assert not epoch(256, local=0.9).on_disk
    assert epoch(64, edges=1e11, local=1.0).bottleneck == "gather"
    assert epoch(1, nodes=1000, edges=0).sent == {"halo": 0, "routing": 0, "gradients": 0}
    parts = {*Parts._fields, *(f"memory of the {name}" for name in epoch().memory)}
    assert set(ADVICE) == parts


def test_more_machines_share_the_work() -> None:
    for local in (0.0, 0.9, 1.0):
        found = [epoch(machines, local=local) for machines in (8, 16, 64, 256)]
        for before, after in pairwise(found):
            assert after.seconds < before.seconds
            if after.on_disk == before.on_disk:
                assert sum(after.memory.values()) < sum(before.memory.values())
    assert halo_rows(Workload(1e6, 1e7, local=1.0), 4) == 0
    assert halo_rows(Workload(1e6, 1e12), 4) == pytest.approx(750_000)


@each_of(
    "wrong",
    [
        {"machines": 0},
        {"machines": 11, "nodes": 10},
        {"nodes": 0},
        {"nodes": float("nan")},
        {"nodes": float("inf")},
        {"edges": -1},
        {"local": 1.1},
        {"hidden": 0},
    ],
)
def test_wrong_sizes(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        epoch(**wrong)
