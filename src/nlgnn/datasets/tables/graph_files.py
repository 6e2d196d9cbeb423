"""Graphs that come as one file: GraphML, and NumPy archives with a SciPy adjacency."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.datasets.readers.heterophilous import read_heterophilous
from nlgnn.datasets.readers.reading import reading, reading_npz
from nlgnn.datasets.tables.encoder import FeatureEncoder
from nlgnn.datasets.tables.features import make_features
from nlgnn.datasets.tables.files import Content, check_is_file, check_unpacked_size, open_content
from nlgnn.datasets.tables.read import TableGraph, read_graph
from nlgnn.datasets.tables.table import table_of_ids
from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph.convert import from_scipy

KNOWN_ARRAYS = r"((adj|attr)_)?(matrix|data|indices|indptr|shape|format)|labels"
NPZ = ".npz"
GRAPH_FILES = (".graphml", ".graphml.gz", NPZ)
LAYOUT = "adj_data, adj_indices, adj_indptr, adj_shape; attr_… or attr_matrix for features; labels"


def read_graph_file(
    path: str | Path,
    *,
    label: str | None = None,
    split: str | None = None,
    weight: str | None = None,
    directed: bool | None = None,
    name: str | None = None,
    standardise: bool = True,
    encoder: FeatureEncoder | None = None,
    class_names: Sequence[str] | None = None,
) -> TableGraph:
    """A graph from a .graphml file (also packed by gzip; needs NetworkX) or an .npz file.

    Attributes of a GraphML file are columns, as of tables: see `read_graph`. In an .npz file, features are numbers and
    are taken as they are, labels are class numbers (-1 = unknown), and options that name columns are refused.

    Args:
        directed: by default what a GraphML file says, and whether an adjacency is symmetric.
    """
    path = Path(path)
    name = name or path.name.partition(".")[0] or "graph"
    check_graph_file(path)
    if has_columns(path):
        content = open_content(path)
        node_table, edge_table, file_directed = read_graphml(content)
        with reading(path):
            return read_graph(
                node_table,
                edge_table,
                id="id",
                label=label,
                source=None if edge_table is None else "source",
                target=None if edge_table is None else "target",
                split=split,
                weight=weight,
                directed=file_directed if directed is None else directed,
                name=name,
                standardise=standardise,
                encoder=encoder,
                class_names=class_names,
            )
    if (label, split, weight) != (None, None, None):
        raise OptionError(f"{path} has no columns to name.", "Leave label, split and weight out.")
    return read_npz(path, directed, name, encoder)


def check_graph_file(path: str | Path) -> None:
    """Raise for a file that is something else by its name."""
    if not str(path).lower().endswith(GRAPH_FILES):
        raise OptionError(
            f"{path} is neither .graphml nor .npz.", "Tables go to read_graph, or to --nodes and --edges."
        )


def has_columns(path: str | Path) -> bool:
    """Whether there is something to name in a graph file: a NumPy archive holds arrays."""
    return not str(path).lower().endswith(NPZ)


def read_graphml(content: Content) -> tuple[pl.DataFrame, pl.DataFrame | None, bool]:
    """Nodes and edges as tables, and whether edges have a direction."""
    try:
        import networkx
    except ImportError as error:
        raise NlgnnError("NetworkX is not installed.", "Run: pip install nlgnn[networkx]") from error
    with reading(content.path):
        source = content.source()
        network = networkx.read_graphml(source if isinstance(source, BytesIO) else str(source))
        if network.number_of_nodes() == 0:
            raise DataError("it has no nodes.", "Give one at least.")
        # GraphML's own ids are what edges name, whatever an attribute "id" says.
        nodes = frame_of([{**data, "id": str(node)} for node, data in network.nodes(data=True)])
        edges = [{**data, "source": str(u), "target": str(v)} for u, v, data in network.edges(data=True)]
        return nodes, frame_of(edges) if edges else None, bool(network.is_directed())


def frame_of(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """A frame of dictionaries; an attribute of several types is text."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        types = {type(value) for value in values if value is not None}
        columns[name] = values if len(types) <= 1 else [None if value is None else str(value) for value in values]
    return pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in columns.items()})


def read_npz(path: Path, directed: bool | None, name: str, encoder: FeatureEncoder | None) -> TableGraph:
    """An adjacency as SciPy saves it, or the arrays in which public graph collections keep it, features and labels."""
    check_is_file(path)
    with reading(path), zipfile.ZipFile(path) as archive:
        unpacked_size = sum(member.file_size for member in archive.infolist())
    check_unpacked_size(unpacked_size, path.stat().st_size, path)
    with reading_npz(path) as stored:
        as_lists = {"edges", "node_features", "node_labels"} <= set(stored)
        # Other arrays, such as names, may be pickled objects, which are never loaded.
        arrays = {name: np.asarray(stored[name]) for name in stored if re.fullmatch(KNOWN_ARRAYS, name)}
    if as_lists:
        graph = read_heterophilous(path, name=name, directed=bool(directed))
        return TableGraph(graph, None, ("Edges, features and labels were taken as they are.",), ())
    with reading(path):
        adjacency = stored_matrix(arrays, "adj_")
        x = stored_matrix(arrays, "attr_")
        y = arrays.get("labels")
        if adjacency is None:
            raise DataError(f"no adjacency among its arrays ({', '.join(sorted(arrays)[:6])}).", f"Arrays: {LAYOUT}.")
        adjacency = sparse.csr_array(adjacency)
        adjacency.sum_duplicates()
        adjacency.eliminate_zeros()
        graph = from_scipy(adjacency, x, y, directed, name)
        weights = [] if graph.edge_weight is None else ["The entries of the adjacency are the weights of edges."]
        notes = ["The adjacency, features and labels were taken as they are.", *weights]
        if x is not None:
            return TableGraph(graph, None, tuple(notes), ())
        features = make_features(graph, table_of_ids(pl.Series(range(graph.num_nodes))), (), encoder, standardise=True)
        notes = ["The adjacency was taken as it is.", *weights, *features.notes]
        return TableGraph(replace(graph, x=features.x), features.encoder, tuple(notes), ())


def stored_matrix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Any:
    """The matrix whose parts have this prefix (SciPy's own, for the adjacency, have none); None = there is none."""
    if f"{prefix}matrix" in arrays:
        return arrays[f"{prefix}matrix"]
    if prefix == "adj_" and f"{prefix}data" not in arrays and "format" in arrays:
        kind = arrays["format"].item()
        if kind not in (b"csr", "csr"):
            raise DataError(f"a matrix of format {kind!r}.", "Save it as CSR: scipy.sparse.save_npz(path, A.tocsr()).")
        prefix = ""
    if f"{prefix}data" not in arrays:
        return None
    data, indices, indptr, shape = (arrays[f"{prefix}{part}"] for part in ("data", "indices", "indptr", "shape"))
    matrix = sparse.csr_array((data, indices, indptr), shape=tuple(int(size) for size in shape))
    matrix.check_format(full_check=True)  # SciPy would trust them, and read where nothing is
    return matrix
