"""Graphs in one place: GraphML files, NumPy archives with a SciPy adjacency, and graph stores."""

from __future__ import annotations

import os
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

from nlgnn.datasets.formats.common import read_heterophilous, reading, reading_npz
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.convert import from_scipy, import_extra
from nlgnn.graph.store import GraphStore
from nlgnn.graph.store_files import is_store
from nlgnn.limits import require_memory
from nlgnn.tables.column_choice import ColumnChoice
from nlgnn.tables.encoder import FeatureEncoder
from nlgnn.tables.read import TableGraph, make_features, read_graph, table_of_ids
from nlgnn.tables.roles import NodeRoles
from nlgnn.tables.table_files import CHUNK, SELECT_ROWS, Content, check_is_file, check_unpacked_size, open_content

BYTES_PER_TAG = 700  # of GraphML, measured: NetworkX keeps a dictionary per node and edge
BYTES_PER_STORED_BYTE = 3  # of an archive: arrays are converted
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
    time: str | None = None,
    group: str | None = None,
    edge_time: str | None = None,
    edge_type: str | None = None,
    directed: bool | None = None,
    name: str | None = None,
    drop: Sequence[str] | str = (),
    keep: Sequence[str] | str = (),
    kind: Mapping[str, str] | None = None,
    drop_leaks: bool = False,
    standardise: bool = True,
    encoder: FeatureEncoder | None = None,
    class_names: Sequence[str] | None = None,
) -> TableGraph:
    """Read a graph from a .graphml file (also compressed by gzip; needs NetworkX), an .npz file or a graph store.

    Attributes of a GraphML file are columns as in `read_graph`. In an .npz file, features are numbers that are not
    changed, labels are class numbers (-1 is unknown), and options that name columns are refused; a store also decides
    about direction.

    Args:
        path: The file, or the folder of a store.
        label: The attribute of labels.
        split: The attribute of splits.
        weight: The edge attribute of weights.
        time: The attribute of times of nodes, as in `read_graph`.
        group: The attribute of groups of nodes.
        edge_time: The edge attribute of times.
        edge_type: The edge attribute of types.
        directed: Whether the direction of edges has a meaning; by default what a GraphML file says, or whether an
            adjacency matrix is not symmetric.
        name: The name of the graph; by default that of the file.
        drop: Attributes of nodes that are left out.
        keep: The only attributes of nodes that become features; by default all of them.
        kind: The kinds of some attributes, as in `read_graph`.
        drop_leaks: Whether attributes that nearly determine the label are left out.
        standardise: Scale numbers to mean 0 and standard deviation 1.
        encoder: A fitted encoder for new nodes.
        class_names: The classes of a trained model. Other labels are then an error.

    Returns:
        The graph with its encoder, notes and warnings.

    Raises:
        DataError: If the file cannot be used.
        OptionError: If the file has another ending, or a column of an .npz file is named.
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
                time=time,
                group=group,
                edge_time=edge_time,
                edge_type=edge_type,
                directed=file_directed if directed is None else directed,
                name=name,
                drop=drop,
                keep=keep,
                kind=kind,
                drop_leaks=drop_leaks,
                standardise=standardise,
                encoder=encoder,
                class_names=class_names,
            )
    if any((label, split, weight, time, group, edge_time, edge_type)) or ColumnChoice.of(drop, keep, kind, drop_leaks):
        raise OptionError(f"{path} has no columns to name.", "Leave names and choices of columns out.")
    if path.is_dir():
        if directed is not None:
            raise OptionError(f"{path} decides about the direction of edges.", "Leave directed out.")
        store = GraphStore.open(path)
        return TableGraph(
            replace(store.to_graph(), name=name), None, ("The features of the store were not changed.",), ()
        )
    return read_npz(path, directed, name, encoder)


def check_graph_file(path: str | Path) -> None:
    """Raise an error unless a path is a store, or its name that of a graph file."""
    if not is_store(path) and not str(path).lower().endswith(GRAPH_FILES):
        raise OptionError(
            f"{path} is neither .graphml nor .npz, nor a graph store.",
            "Tables go to read_graph, or to --nodes and --edges.",
        )


def has_columns(path: str | Path) -> bool:
    """Return whether a graph file has named columns; NumPy archives and stores hold arrays."""
    return not (str(path).lower().endswith(NPZ) or os.path.isdir(path))


def read_graphml(content: Content) -> tuple[pl.DataFrame, pl.DataFrame | None, bool]:
    """Return nodes and edges as tables, and whether edges have a direction."""
    networkx = import_extra("networkx", "NetworkX", extra="networkx")
    with content.opened() as file:
        tags = sum(chunk.count(b"<") for chunk in iter(lambda: file.read(CHUNK), b""))
    require_memory(content.size() + BYTES_PER_TAG * tags, content.path, SELECT_ROWS)
    with reading(content.path):
        source = content.source()
        network = networkx.read_graphml(source if isinstance(source, BytesIO) else str(source))
        if network.number_of_nodes() == 0:
            raise DataError("It has no nodes.", "Give at least one.")
        # Edges refer to the ids of GraphML, not to an attribute "id".
        nodes = [{**data, "id": str(node)} for node, data in network.nodes(data=True)]
        edges = [{**data, "source": str(u), "target": str(v)} for u, v, data in network.edges(data=True)]
        # An attribute of several types becomes text.
        tables = [pl.DataFrame(rows, infer_schema_length=None, strict=False) for rows in (nodes, edges)]
        return tables[0], tables[1] if edges else None, bool(network.is_directed())


def read_npz(path: Path, directed: bool | None, name: str, encoder: FeatureEncoder | None) -> TableGraph:
    """Read an adjacency as SciPy saves it, or the arrays of public graph collections with features and labels."""
    check_is_file(path)
    with reading(path), zipfile.ZipFile(path) as archive:
        unpacked_size = sum(member.file_size for member in archive.infolist())
    check_unpacked_size(unpacked_size, path.stat().st_size, path)
    require_memory(BYTES_PER_STORED_BYTE * unpacked_size, path, SELECT_ROWS)
    with reading_npz(path) as stored:
        as_lists = {"edges", "node_features", "node_labels"} <= set(stored)
        # Other arrays, such as names, may be pickled objects, which are never loaded.
        arrays = {name: np.asarray(stored[name]) for name in stored if re.fullmatch(KNOWN_ARRAYS, name)}
    if as_lists:
        graph = read_heterophilous(path, name=name, directed=bool(directed))
        return TableGraph(graph, None, ("Edges, features and labels were not changed.",), ())
    with reading(path):
        adjacency = stored_matrix(arrays, "adj_")
        x = stored_matrix(arrays, "attr_")
        y = arrays.get("labels")
        if adjacency is None:
            raise DataError(f"There is no adjacency among its arrays {sorted(arrays)[:6]}.", f"Save these: {LAYOUT}.")
        adjacency = sparse.csr_array(adjacency)
        adjacency.sum_duplicates()
        adjacency.eliminate_zeros()
        graph = from_scipy(adjacency, x, y, directed, name)
        weights = [] if graph.edge_weight is None else ["The entries of the adjacency are the weights of edges."]
        notes = ["The adjacency, features and labels were not changed.", *weights]
        if x is not None:
            return TableGraph(graph, None, tuple(notes), ())
        made = make_features(graph, table_of_ids(pl.Series(range(graph.num_nodes))), NodeRoles(id=None), encoder, True)
        return replace(made, notes=("The adjacency was not changed.", *weights, *made.notes))


def stored_matrix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Any:
    """Return the matrix whose arrays have this prefix (SciPy's own arrays have none), or None."""
    if f"{prefix}matrix" in arrays:
        return arrays[f"{prefix}matrix"]
    if prefix == "adj_" and f"{prefix}data" not in arrays and "format" in arrays:
        kind = arrays["format"].item()
        if kind not in (b"csr", "csr"):
            raise DataError(f"The matrix has format {kind!r}.", "Save it by scipy.sparse.save_npz(path, A.tocsr()).")
        prefix = ""
    if f"{prefix}data" not in arrays:
        return None
    data, indices, indptr, shape = (arrays[f"{prefix}{part}"] for part in ("data", "indices", "indptr", "shape"))
    matrix = sparse.csr_array((data, indices, indptr), shape=tuple(int(size) for size in shape))
    matrix.check_format(full_check=True)  # SciPy does not check them and might read outside the arrays
    return matrix
