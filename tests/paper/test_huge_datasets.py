"""The paper's two large graphs, from made files of the same format at a twentieth of the size."""

from __future__ import annotations

import functools
import gzip
import http.server
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import io, sparse

from nlgnn.datasets import load_graph
from nlgnn.datasets.catalog import CATALOG
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure
from nlgnn.paper.cell import Schedule
from nlgnn.paper.measure import run_cell
from nlgnn.paper.numbers import printed_statistics
from nlgnn.paper.plans import framework_cell
from nlgnn.training.requirements import estimate_requirements

SHARE = 20
EPOCHS = 3
PARTS = ("train", "valid", "test")


def make_arxiv(path: Path) -> None:
    """Write a zip of gzipped CSV files without headers, as the Open Graph Benchmark publishes ogbn-arxiv."""
    nodes, edges = sizes("ogbn-arxiv")
    rng = np.random.default_rng(0)
    parts = np.split(rng.permutation(nodes), [nodes * 54 // 100, nodes * 72 // 100])
    tables: dict[str, tuple[NDArray[np.generic], str]] = {
        "raw/edge": (random_edges(nodes, edges, rng).T, "%d"),
        "raw/node-feat": (rng.normal(size=(nodes, 128)), "%.6f"),
        "raw/node-label": (rng.integers(40, size=(nodes, 1)), "%d"),
        "raw/num-node-list": (np.array([[nodes]]), "%d"),
        "raw/num-edge-list": (np.array([[edges]]), "%d"),
        "raw/node_year": (rng.integers(1990, 2021, size=(nodes, 1)), "%d"),
    }
    tables |= {f"split/time/{part}": (rows[:, None], "%d") for part, rows in zip(PARTS, parts, strict=True)}
    with zipfile.ZipFile(path, "w") as archive:
        for name, (table, form) in tables.items():
            row = ",".join([form] * table.shape[1]) + "\n"
            text = "".join(row % tuple(values) for values in table.tolist())
            archive.writestr(f"arxiv/{name}.csv.gz", gzip.compress(text.encode(), compresslevel=1))


def make_snap_patents(path: Path) -> None:
    """Write a MATLAB file with sparse features and years, some of them unknown, as LINKX publishes snap-patents."""
    nodes, edges = sizes("snap-patents")
    rng = np.random.default_rng(0)
    years = rng.integers(1963, 2000, size=(1, nodes)).astype(float)
    years[0, :100] = np.nan
    features = sparse.random(nodes, 269, density=0.05, format="csc", rng=rng)
    contents = {"edge_index": random_edges(nodes, edges, rng), "node_feat": features, "years": years}
    io.savemat(path, {**contents, "num_nodes": nodes}, do_compression=True)


def make_patents_splits(path: Path) -> None:
    """Write five splits of 50, 25 and 25 % as a pickled array of dictionaries."""
    nodes, _ = sizes("snap-patents")
    splits = []
    for seed in range(5):
        known = np.random.default_rng(seed).permutation(np.arange(100, nodes))
        parts = np.split(known, [nodes // 2, 3 * nodes // 4])
        splits.append(dict(zip(PARTS, parts, strict=True)))
    np.save(path, np.array(splits), allow_pickle=True)


def sizes(name: str) -> tuple[int, int]:
    printed = printed_statistics(name)
    return printed["nodes"] // SHARE, printed["edges"] // SHARE


def random_edges(nodes: int, edges: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return edges without loops."""
    sources = rng.integers(nodes, size=edges)
    return np.stack([sources, (sources + rng.integers(1, nodes, size=edges)) % nodes])


MAKERS: dict[str, list[Callable[[Path], None]]] = {  # in the order of the files in the catalogue
    "ogbn-arxiv": [make_arxiv],
    "snap-patents": [make_snap_patents, make_patents_splits],
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def publisher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is served on loopback. All huge files are downloaded from there into an empty cache."""
    folder = tmp_path / "published"
    folder.mkdir()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("NLGNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NLGNN_ALLOW_UNVERIFIED", "1")
    monkeypatch.delenv("NLGNN_DATA", raising=False)
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        address = f"http://127.0.0.1:{running.server_port}"
        for name in MAKERS:
            whole = CATALOG[name]
            files = tuple(replace(file, url=f"{address}/{file.path}") for file in whole.files)
            small = replace(whole, files=files, statistics=replace(whole.statistics, nodes=sizes(name)[0]))
            monkeypatch.setitem(CATALOG, name, small)  # type: ignore[arg-type]
        yield folder
        running.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_from_the_download_to_five_runs(publisher: Path, tmp_path: Path, name: str) -> None:
    for file, make in zip(CATALOG[name].files, MAKERS[name], strict=True):
        (publisher / file.path).parent.mkdir(parents=True, exist_ok=True)
        make(publisher / file.path)
    graph = load_graph(name)
    nodes, edges = sizes(name)
    assert (graph.num_nodes, graph.edge_index.shape[1]) == (nodes, edges)
    assert (graph.num_features, graph.num_classes) == ((128, 40) if name == "ogbn-arxiv" else (269, 5))

    cell = framework_cell(name, "nlgcn")
    assert cell.schedule.splits == 5
    schedule = Schedule({"epochs": EPOCHS}, splits=5)
    result = run_cell(replace(cell, candidates=({"hidden": 48},), schedule=schedule), tmp_path, progress=False)
    assert result is not None
    assert [run["failure"] for run in result["runs"]] == [None] * 5
    assert all(0 < run["epochs"] <= EPOCHS and 0 < run["test"] < 100 for run in result["runs"])
    assert len({run["test"] for run in result["runs"]}) > 1

    factory, recipe = configure("nlgcn", graph, "released", hidden=48, epochs=EPOCHS)
    needed = estimate_requirements(factory, graph, make_splits(graph, cell.protocol, 5), recipe)
    assert needed.step > 4 * 48 * nodes  # at least one hidden layer
    seconds = np.median([run["ms_per_epoch"] for run in result["runs"]]) / 1000
    assert 0.02 * seconds < needed.epoch < 50 * seconds  # of the right kind, on a machine of any load
