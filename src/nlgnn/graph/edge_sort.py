"""External sort of edges: a list of any length on disk becomes the adjacency of a store, within a limit of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import DataError
from nlgnn.graph.store_writer import ArrayWriter, index_type

BYTES_PER_ENTRY = 64  # of a bucket while it is sorted
FEWEST_ENTRIES = 1 << 16  # in memory, whatever its limit
MOST_BUCKETS = 500  # open files
LARGEST_KEY = 1 << 62


@dataclass
class EdgeList:
    """Edges in a file, to which further ones are appended.

    Args:
        path: The file, which is created.
        num_nodes: The number of nodes, or a number that is not far below it.
        weighted: Whether the edges have weights.
    """

    path: Path
    num_nodes: int
    weighted: bool
    length: int = 0
    dtype: np.dtype[Any] = field(init=False)

    def __post_init__(self) -> None:
        number = index_type(2 * self.num_nodes)  # nodes may be added
        self.dtype = np.dtype([("source", number), ("target", number), *[("weight", np.float32)] * self.weighted])
        self.path.touch(exist_ok=False)

    def append(self, edge_index: NDArray[np.int64], weight: NDArray[np.float32] | None = None) -> None:
        """Append edges `[2, num_edges]` with their weights."""
        rows = np.empty(edge_index.shape[1], self.dtype)
        if rows.size and edge_index.max() > np.iinfo(self.dtype["source"]).max:
            raise DataError("The edges name more nodes than the table of nodes has.", "Add them to the table.")
        rows["source"], rows["target"] = edge_index
        if self.weighted:
            rows["weight"] = weight
        with self.path.open("ab") as file:
            file.write(rows.data)
        self.length += len(rows)

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:
        """Yield the edges, some at a time."""
        yield from file_chunks(self.path, self.dtype, rows)


@dataclass(frozen=True)
class SortedEdges:
    """The numbers of an adjacency: its entries, and the loops and edges of weight 0 among the given edges."""

    entries: int
    loops: int
    zeros: int


def sort_edges(
    edges: EdgeList,
    folder: Path,
    num_nodes: int,
    both_directions: bool,
    memory: int,
    number_of: NDArray[np.integer] | None = None,
) -> SortedEdges:
    """Write `indptr.npy`, `indices.npy` and, of weighted edges, `weights.npy`.

    Entries go to buckets of neighbouring targets, each of which is sorted in memory. Repeated edges are one entry with
    the sum of their weights, and entries of weight 0 are left out. With both directions, a pair of nodes has the larger
    weight of the two.

    Args:
        edges: The edges.
        folder: The folder of the files.
        num_nodes: The number of nodes.
        both_directions: Whether each edge is stored in both directions.
        memory: The number of bytes to use, besides a few numbers per node.
        number_of: The new number of each node; None to keep the numbers.

    Returns:
        The number of entries.
    """
    at_once = max(FEWEST_ENTRIES, memory // BYTES_PER_ENTRY)
    rows = max(FEWEST_ENTRIES // 2, at_once // 4)
    counts, loops, zeros = np.zeros(num_nodes, np.int64), 0, 0
    for entries in _entries(edges, rows, both_directions, number_of):
        counts += np.bincount(entries["target"], minlength=num_nodes)
        forward = entries[~entries["back"]]
        loops += int((forward["source"] == forward["target"]).sum())
        zeros += int((forward["weight"] == 0).sum()) if edges.weighted else 0
    bounds = bucket_bounds(counts, at_once, num_nodes)
    if len(bounds) == 2:
        buckets = iter([list(_entries(edges, rows, both_directions, number_of))])
    else:
        buckets = _distributed(_entries(edges, rows, both_directions, number_of), bounds, folder)
    degrees = np.zeros(num_nodes + 1, np.int64)
    number = index_type(num_nodes)
    with ExitStack() as files:
        indices = files.enter_context(ArrayWriter(folder / "indices.npy", number))
        weights = files.enter_context(ArrayWriter(folder / "weights.npy", np.float32)) if edges.weighted else None
        for first, bucket in zip(bounds, buckets, strict=False):
            targets, sources, weight = _merged(bucket, int(first), num_nodes)
            degrees[first + 1 : first + 1 + len(targets)] = targets
            indices.append(sources)
            if weights is not None and weight is not None:
                weights.append(weight)
    np.save(folder / "indptr.npy", np.cumsum(degrees))
    return SortedEdges(indices.rows, loops, zeros)


def file_chunks(path: Path, dtype: np.dtype[Any], rows: int) -> Iterator[NDArray[Any]]:
    """Yield the records of a file, some at a time."""
    with path.open("rb") as file:
        while len(chunk := np.fromfile(file, dtype, rows)):
            yield chunk


def bucket_bounds(counts: NDArray[np.int64], at_once: int, num_nodes: int) -> NDArray[np.int64]:
    """Return the first node of each bucket, and the number of nodes at the end.

    A bucket has at most `at_once` entries more than its last node.
    """
    ends = np.cumsum(counts)
    wanted = max(1, -(-int(ends[-1]) // at_once), 4 * num_nodes**2 // LARGEST_KEY + 1)
    if wanted > MOST_BUCKETS:
        raise DataError(
            f"{int(ends[-1]):,} edges cannot be sorted in this memory.", "Allow more (--memory): eight times as much."
        )
    cuts = np.searchsorted(ends, np.arange(1, wanted) * (int(ends[-1]) / wanted), side="left") + 1
    cuts = np.minimum(cuts, num_nodes)
    return np.unique(np.concatenate([[0], cuts, [num_nodes]])).astype(np.int64)


def _entries(
    edges: EdgeList, rows: int, both_directions: bool, number_of: NDArray[np.integer] | None
) -> Iterator[NDArray[Any]]:
    """Yield entries (target, source, weight) of the adjacency; those of the other direction are marked."""
    dtype = np.dtype([*edges.dtype.descr, ("back", np.bool_)])
    for chunk in edges.chunks(rows):
        if number_of is not None:
            chunk["source"], chunk["target"] = number_of[chunk["source"]], number_of[chunk["target"]]
        turned = chunk[chunk["source"] != chunk["target"]] if both_directions else chunk[:0]
        entries = np.empty(len(chunk) + len(turned), dtype)
        for name in edges.dtype.names or ():
            entries[name][: len(chunk)] = chunk[name]
            other = {"source": "target", "target": "source"}.get(name, name)
            entries[name][len(chunk) :] = turned[other]
        entries["back"][: len(chunk)], entries["back"][len(chunk) :] = False, True
        yield entries


def _distributed(
    chunks: Iterator[NDArray[Any]], bounds: NDArray[np.int64], folder: Path
) -> Iterator[list[NDArray[Any]]]:
    """Write entries into one file per bucket, and yield the content of each."""
    paths = [folder / f"bucket-{number}" for number in range(len(bounds) - 1)]
    dtype: Any = None
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for chunk in chunks:
            dtype = chunk.dtype
            bucket = np.searchsorted(bounds, chunk["target"], side="right") - 1
            order = np.argsort(bucket, kind="stable")
            ends = np.cumsum(np.bincount(bucket, minlength=len(paths)))
            for file, rows in zip(files, np.split(order, ends[:-1]), strict=True):
                file.write(chunk[rows].data)
    for path in paths:
        yield [np.fromfile(path, dtype)]
        path.unlink()


def _merged(
    bucket: list[NDArray[Any]], first: int, num_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32] | None]:
    """Return the number of entries per target from the first one on, and sources and weights in order."""
    if not sum(map(len, bucket)):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32)
    key = np.concatenate([(rows["target"].astype(np.int64) - first) * num_nodes + rows["source"] for rows in bucket])
    weight: NDArray[np.float32] | None = None
    if "weight" in (bucket[0].dtype.names or ()):
        key = 2 * key + np.concatenate([rows["back"] for rows in bucket])
        weight = np.concatenate([rows["weight"] for rows in bucket])
        bucket.clear()
        order = np.argsort(key, kind="stable")
        key, weight = key[order], weight[order]
        starts = first_of_equal(key)
        key, weight = key[starts] >> 1, np.add.reduceat(weight, starts)
        starts = first_of_equal(key)
        key, weight = key[starts], np.maximum.reduceat(weight, starts)
        key, weight = key[weight > 0], weight[weight > 0]
    else:
        bucket.clear()
        key.sort()
        key = key[first_of_equal(key)]
    target = key // num_nodes
    key -= target * num_nodes
    return np.bincount(target), key, weight


def first_of_equal(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of the first of each run of equal numbers."""
    return np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
