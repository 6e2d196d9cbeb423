"""The portfolio: its entries and the options that they take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiment_samples import small_graph
from nlgnn.errors import OptionError
from nlgnn.models.build import check_given, configure
from nlgnn.paper.benchmark import DATA as BENCHMARK
from nlgnn.selection.portfolio import DATA, PRESET, Entry, check_options, non_local_entries, read_portfolio


def test_portfolio() -> None:
    """Every entry can be configured, has its own name, and refers to entries before it."""
    entries = read_portfolio()
    graph = replace(small_graph(), name="other")
    names = [entry.name for entry in entries]
    assert len(set(names)) == len({entry.folder for entry in entries}) == len(entries) >= 20
    for number, entry in enumerate(entries):
        check_given(entry.model, "other", PRESET, entry.options)
        configure(entry.model, graph, PRESET, **entry.options)
        assert entry.like in ("", *names[:number])
        assert entry.compared_with in ("", *names)
        for version in non_local_entries(entry, {}, controls=True):
            configure(version.model, graph, PRESET, **version.options)
    assert [entry.model for entry in entries if entry.always] == ["logistic", "mlp", "trees"]
    assert all(entry.without_edges for entry in entries if entry.always)


def test_settings_are_those_of_the_benchmark() -> None:
    assert DATA["non_local"] == BENCHMARK["non_local"]
    measured = {entry["name"]: entry for entry in BENCHMARK["entry"]}
    for entry in DATA["entry"]:
        if entry["name"] in measured and entry["name"] != "trees":
            other = measured[entry["name"]]
            assert entry["model"] == other["model"]
            assert entry.get("options", {}).items() >= other.get("options", {}).items(), entry["name"]


def test_options_that_were_given() -> None:
    entries = {entry.name: entry for entry in read_portfolio({"epochs": 7, "kernel_size": 5, "metric": "macro-f1"})}
    assert entries["gcn"].options["epochs"] == 7
    assert "kernel_size" not in entries["gcn"].options
    assert "epochs" not in entries["kernel"].options
    assert entries["kernel"].options["metric"] == "macro-f1"
    (own, control) = non_local_entries(entries["gcn"], {"kernel_size": 5})
    assert (own.options["kernel_size"], control.options["kernel_size"]) == (5, 1)
    assert (own.control, control.control) == (False, True)
    check_options("graph", None, {"kernel_size": 3, "epochs": 5})
    with pytest.raises(OptionError, match="no model of auto has the option 'nonsense'"):
        check_options("graph", None, {"nonsense": 2})
    with pytest.raises(OptionError, match="kernel_size=2"):
        check_options("graph", None, {"kernel_size": 2})


def test_when_an_entry_applies() -> None:
    graph = small_graph()
    assert Entry("a", "gcn").why_not(graph) is None
    assert Entry("a", "gcn", directed=True).why_not(graph) == "edges have no direction"
    assert Entry("a", "gcn", directed=True).why_not(replace(graph, directed=True)) is None
    assert Entry("a", "gcn", max_nodes=29).why_not(graph) == "it is meant for at most 29 nodes"
    bare = replace(graph, edge_index=np.zeros((2, 0), np.int64))
    assert Entry("a", "gcn").why_not(bare) == "the graph has no edges"
    assert Entry("a", "mlp", without_edges=True).why_not(bare) is None
