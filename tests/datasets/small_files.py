"""Tiny files in the exact public formats, written into a folder; each writer returns the paths in the reader's order.

All graphs have six nodes, three features, two classes (patents: five) and the path 0 - 1 - 2 - 3 - 4 - 5.
"""

from __future__ import annotations

import gzip
import json
import pickle
import zipfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import io, sparse

X = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 1]], np.float32)
Y = np.array([0, 1, 0, 1, 0, 1])
EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]])
PARTS = {"train": [0, 1, 2], "valid": [3], "test": [4, 5]}
MASKS = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 1]], bool)
NODE_ORDER = [4, 0, 5, 2, 1, 3]  # of the lines in a file


def write_masks(folder: Path) -> Path:
    np.savez(folder / "split_0.npz", train_mask=MASKS[0], val_mask=MASKS[1], test_mask=MASKS[2])
    return folder / "split_0.npz"


def write_geom_gcn(folder: Path) -> list[Path]:
    rows = ["\t".join([str(v), ",".join(str(int(f)) for f in X[v]), str(Y[v])]) for v in NODE_ORDER]
    return write_geom_gcn_text(folder, rows)


def write_geom_gcn_lists(folder: Path) -> list[Path]:
    lists = {v: np.flatnonzero(X[v]).tolist() or [0] for v in range(6)}
    rows = ["\t".join([str(v), ",".join(map(str, lists[v])), str(Y[v])]) for v in NODE_ORDER]
    return write_geom_gcn_text(folder, rows)


def write_geom_gcn_text(folder: Path, rows: list[str]) -> list[Path]:
    nodes, edges = folder / "out1_node_feature_label.txt", folder / "out1_graph_edges.txt"
    nodes.write_text("\n".join(["node_id\tfeature\tlabel", *rows]) + "\n")
    edges.write_text("\n".join(["node_id\tnode_id", *(f"{u}\t{v}" for u, v in EDGES)]) + "\n")
    return [nodes, edges, write_masks(folder)]


def write_planetoid(folder: Path) -> list[Path]:
    """Nodes 0 to 2 first; of the others, 5 and 3 are test nodes and 4 is missing, as some of Citeseer are."""
    neighbours = defaultdict(list)
    for u, v in EDGES.tolist():
        neighbours[u].append(v)
        neighbours[v].append(u)
    one_hot = np.eye(2, dtype=np.int32)[Y]
    parts = {
        "allx": sparse.csr_matrix(X[:3]),
        "tx": sparse.csr_matrix(X[[5, 3]]),
        "ally": one_hot[:3],
        "ty": one_hot[[5, 3]],
        "graph": neighbours,
    }
    paths = []
    for part, value in parts.items():
        # The class path of the SciPy of that time; in this protocol it stands there as plain text.
        data = pickle.dumps(value, protocol=3).replace(b"scipy.sparse._csr\n", b"scipy.sparse.csr\n")
        paths.append(folder / f"ind.small.{part}")
        paths[-1].write_bytes(data)
    (folder / "ind.small.test.index").write_text("5\n3\n")
    return [*paths, folder / "ind.small.test.index", write_masks(folder)]


def write_heterophilous(folder: Path) -> list[Path]:
    masks = dict(zip(("train_masks", "val_masks", "test_masks"), MASKS[:, None], strict=True))
    np.savez_compressed(folder / "small.npz", node_features=X, node_labels=Y, edges=EDGES, **masks)
    return [folder / "small.npz"]


def write_fb100(folder: Path) -> list[Path]:
    adjacency = sparse.csc_matrix((np.ones(5), EDGES.T), shape=(6, 6))
    # status, gender (0 = not entered), major, minor, dorm, year, school
    profiles = np.array([[1, 1, 5, 0, 0, 0, 0], [1, 2, 5, 0, 0, 0, 0], [2, 0, 7, 0, 0, 0, 0]] * 2)
    io.savemat(folder / "Small5.mat", {"A": adjacency + adjacency.T, "local_info": profiles}, do_compression=True)
    return [folder / "Small5.mat"]


def write_linkx_splits(folder: Path) -> Path:
    splits = np.array([{part: np.array(nodes) for part, nodes in PARTS.items()}] * 5)
    np.save(folder / "small-splits.npy", splits, allow_pickle=True)
    return folder / "small-splits.npy"


def write_twitch(folder: Path) -> list[Path]:
    rows = [f"{1000 + v},9,{bool(Y[v])},5,False,{v}" for v in NODE_ORDER]
    (folder / "target.csv").write_text("\n".join(["id,days,mature,views,partner,new_id", *rows]) + "\n")
    lists = {str(v): [*np.flatnonzero(X[v]).tolist(), *np.flatnonzero(X[v]).tolist()] for v in NODE_ORDER}
    (folder / "features.json").write_text(json.dumps(lists))
    (folder / "edges.csv").write_text("\n".join(["from,to", *(f"{u},{v}" for u, v in EDGES)]) + "\n")
    return [folder / "target.csv", folder / "features.json", folder / "edges.csv", write_linkx_splits(folder)]


def write_ogb(folder: Path) -> list[Path]:
    tables = {
        "raw/edge": EDGES,
        "raw/node-feat": X,
        "raw/node-label": Y[:, None],
        "raw/num-node-list": [[6]],
        "raw/num-edge-list": [[5]],
        "raw/node_year": [[2010]] * 6,
        **{f"split/time/{part}": [[node] for node in nodes] for part, nodes in PARTS.items()},
    }
    with zipfile.ZipFile(folder / "small.zip", "w") as archive:
        archive.writestr("small/RELEASE_v1.txt", "")
        for name, rows in tables.items():
            text = "".join(",".join(map(str, row)) + "\n" for row in rows)
            archive.writestr(f"small/{name}.csv.gz", gzip.compress(text.encode()))
    return [folder / "small.zip"]


YEARS = np.array([1975.0, 1980, np.nan, 1985, 1990, 1999])


def write_snap_patents(folder: Path) -> list[Path]:
    contents = {"edge_index": EDGES.T, "node_feat": sparse.csc_matrix(X), "years": YEARS, "num_nodes": 6}
    io.savemat(folder / "snap_patents.mat", contents, do_compression=True)
    return [folder / "snap_patents.mat", write_linkx_splits(folder)]


WRITERS: dict[str, Callable[[Path], list[Path]]] = {
    "geom-gcn": write_geom_gcn,
    "geom-gcn-lists": write_geom_gcn_lists,
    "planetoid": write_planetoid,
    "heterophilous": write_heterophilous,
    "fb100": write_fb100,
    "twitch": write_twitch,
    "ogb": write_ogb,
    "snap-patents": write_snap_patents,
}
