"""The automatic choice on made accounts and payments: a rare class, mixed columns, and direction that matters."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cli_samples import Command
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.tables import read_graph

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    found = importlib.util.spec_from_file_location("make_tables", EXAMPLES / "make_tables.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_files_are_those_of_the_script(maker: ModuleType, tmp_path: Path) -> None:
    maker.write_tables(tmp_path)
    for name in ("accounts.csv", "payments.csv"):
        assert (tmp_path / name).read_text() == (EXAMPLES / name).read_text()


def test_a_rare_class(maker: ModuleType, tmp_path: Path) -> None:
    maker.write_tables(tmp_path, 600, 3)
    graph = read_graph(tmp_path / "accounts.csv", tmp_path / "payments.csv", label="is_fraud").graph
    assert graph.class_names == ("no", "yes")
    assert 0.02 < (graph.y == 1).mean() < 0.1


def boosting(graph: Graph, split: Any) -> float:
    """Return the average precision, in percent, of LightGBM on own columns and means over in- and out-neighbours."""
    from lightgbm import LGBMClassifier
    from sklearn.metrics import average_precision_score

    x, forward = graph.dense_features(), graph.directed_adjacency
    columns = [x]
    for adjacency in (forward, forward.T.tocsr()):
        degree = np.asarray(adjacency.sum(1)).reshape(-1, 1)
        columns += [adjacency @ x / np.maximum(degree, 1), degree]
    table = np.hstack(columns)
    model = LGBMClassifier(n_estimators=200, learning_rate=0.05, num_leaves=15, verbose=-1, n_jobs=1, random_state=0)
    model.fit(table[split.train], graph.y[split.train])
    scores = model.predict_proba(table[split.test])[:, 1]
    return 100 * float(average_precision_score(graph.y[split.test], scores))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_as_good_as_boosting_on_neighbour_means(seed: int, maker: ModuleType, command: Command) -> None:
    maker.write_tables(Path(), 4000, seed)
    tables = ("--nodes", "accounts.csv", "--edges", "payments.csv", "--label", "is_fraud")
    done = command("train", *tables, "--time-budget", "2m", "--out", "X")
    assert done.code == 0, done.err
    board = json.loads(Path("X/leaderboard.json").read_text())
    assert board["metric"] == "average-precision"
    graph = read_graph("accounts.csv", "payments.csv", label="is_fraud", directed=True).graph
    splits = make_splits(graph, "random-60", 10)
    assert board["ranked"][0]["test average-precision"] > fmean(boosting(graph, split) for split in splits) - 2
    assert "The direction of edges helps" in done.out
    assert "Neighbours help" in done.out
