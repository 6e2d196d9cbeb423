"""The catalogue: complete, fast to import, and with PyG's own addresses where PyG has the file."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import nlgnn.datasets
from each_of import each_of
from nlgnn.datasets import CATALOG, describe, load_graph
from nlgnn.datasets.formats import READERS
from nlgnn.errors import DataError
from nlgnn.graph.splits import FIXED_PROTOCOLS, RANDOM_PROTOCOLS

NAMES = [
    "texas",
    "cornell",
    "cornell-pre2022",
    "wisconsin",
    "actor",
    "chameleon",
    "squirrel",
    "chameleon-filtered",
    "squirrel-filtered",
    "cora",
    "citeseer",
    "pubmed",
    "minesweeper",
    "tolokers",
    "twitch-de",
    "cornell5",
    "roman-empire",
    "amazon-ratings",
    "questions",
    "ogbn-arxiv",
    "snap-patents",
    "mushroom-body-left",
    "mushroom-body-right",
    "patents-like",
]


def test_names() -> None:
    assert sorted(CATALOG) == sorted(NAMES)
    assert all(CATALOG[name].name == name for name in CATALOG)


def test_entries_are_complete() -> None:
    for dataset in CATALOG.values():
        assert dataset.licence, dataset.name
        assert dataset.citation, dataset.name
        assert dataset.quirks, dataset.name
        assert dataset.reader in READERS or not dataset.files, dataset.name
        assert dataset.default_protocol in (*dataset.protocols, *RANDOM_PROTOCOLS), dataset.name
        assert set(dataset.protocols) <= set(FIXED_PROTOCOLS), dataset.name
        assert (dataset.statistics.homophily is not None) == dataset.statistics.measured, dataset.name


def test_checksums() -> None:
    files = [file for d in CATALOG.values() for file in (*d.files, *d.relations.values())]
    assert len({file.path for file in files if file.sha256}) == 158
    assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in files if file.sha256 is not None)
    assert all(file.sha256 for d in CATALOG.values() for file in d.relations.values())
    unverified = {d.name for d in CATALOG.values() for file in d.files if file.sha256 is None}
    assert unverified == {"roman-empire", "amazon-ratings", "questions", "ogbn-arxiv", "snap-patents"}


@each_of(
    ("given", "meant"),
    [("Texas", "texas"), ("film", "actor"), ("roman_empire", "roman-empire"), ("mushroom-body", "mushroom-body-left")],
)
def test_names_are_forgiving(given: str, meant: str) -> None:
    assert describe(given).name == meant


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(DataError, match="Did you mean 'chameleon'"):
        load_graph("chamaeleon")


@pytest.mark.parametrize(
    ("program", "unneeded"),
    [
        ("from nlgnn.datasets import CATALOG, is_present; [is_present(name) for name in CATALOG]", "numpy torch"),
        ("from nlgnn.datasets import *; load_graph('mushroom-body')", "torch torch_geometric pyarrow"),
        ("import nlgnn.datasets.formats", "torch torch_geometric"),
    ],
)
def test_imports_what_it_needs_and_no_more(program: str, unneeded: str) -> None:
    whole = f"{program}; import sys; print([name for name in {unneeded.split()} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_public_names() -> None:
    assert all(getattr(nlgnn.datasets, name) is not None for name in dir(nlgnn.datasets))
    with pytest.raises(AttributeError, match="no_such_name"):
        nlgnn.datasets.no_such_name  # noqa: B018


GEOM_GCN_FILES = {"geom_gcn_preprocess": True}
GEOM_GCN_SPLITS = {"split": "geom-gcn"}
# Our name, PyG's class, its name for the graph, and what its constructor would have set.
IN_PYG = [
    ("texas", "WebKB", "texas", {}),
    ("cornell", "WebKB", "cornell", {}),
    ("wisconsin", "WebKB", "wisconsin", {}),
    ("actor", "Actor", "film", {}),
    ("chameleon", "WikipediaNetwork", "chameleon", GEOM_GCN_FILES),
    ("squirrel", "WikipediaNetwork", "squirrel", GEOM_GCN_FILES),
    ("cora", "Planetoid", "cora", GEOM_GCN_SPLITS),
    ("citeseer", "Planetoid", "citeseer", GEOM_GCN_SPLITS),
    ("pubmed", "Planetoid", "pubmed", GEOM_GCN_SPLITS),
    ("cornell5", "LINKXDataset", "cornell5", {}),
    ("minesweeper", "HeterophilousGraphDataset", "minesweeper", {}),
    ("tolokers", "HeterophilousGraphDataset", "tolokers", {}),
    ("roman-empire", "HeterophilousGraphDataset", "roman_empire", {}),
    ("amazon-ratings", "HeterophilousGraphDataset", "amazon_ratings", {}),
    ("questions", "HeterophilousGraphDataset", "questions", {}),
]


@each_of(("name", "kind", "name_in_pyg", "attributes"), IN_PYG)
def test_addresses_are_those_of_pyg(
    name: str, kind: str, name_in_pyg: str, attributes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyG's own class is asked to download, and what it asks for is recorded instead."""
    pyg_datasets = pytest.importorskip("torch_geometric.datasets")
    pyg_class = getattr(pyg_datasets, kind)
    dataset = pyg_class.__new__(pyg_class)
    for key, value in {"root": "unused", "name": name_in_pyg, **attributes}.items():
        setattr(dataset, key, value)
    module, theirs = sys.modules[pyg_class.__module__], set()
    if hasattr(module, "download_url"):
        monkeypatch.setattr(module, "download_url", lambda url, *_, **__: theirs.add(url))
    else:
        monkeypatch.setattr(module.fs, "cp", lambda url, *_, **__: theirs.add(url))
    dataset.download()
    not_needed = {url for url in theirs if url.endswith((f"ind.{name}.x", f"ind.{name}.y"))}
    assert {file.url for file in CATALOG[name].files} == theirs - not_needed
