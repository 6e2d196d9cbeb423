"""The Open Graph Benchmark's raw layout: csv.gz files, in its zip archive or in a folder."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.datasets.readers.index_splits import PARTS, index_split
from nlgnn.datasets.readers.reading import reading
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph

Folder = Path | zipfile.Path


def read_ogb(path: Path, *, name: str, directed: bool, split: str = "time") -> Graph:
    """Tables without header: edges, features, labels, the number of nodes, and three lists of node numbers."""
    with reading(path), opened(path) as folder:
        root = find_root(folder)
        (num_nodes,) = read_integers(root / "raw" / "num-node-list.csv.gz")[0]
        y = read_integers(root / "raw" / "node-label.csv.gz")[:, 0]
        if len(y) != num_nodes:
            raise DataError(
                f"{len(y)} labels, but {num_nodes} nodes by num-node-list.csv.gz.", "Replace it by a fresh copy."
            )
        parts = {part: read_integers(root / "split" / split / f"{part}.csv.gz")[:, 0] for part in PARTS}
        return Graph(
            x=read_table(root / "raw" / "node-feat.csv.gz", np.float32),
            edge_index=read_integers(root / "raw" / "edge.csv.gz").T,
            y=y,
            directed=directed,
            name=name,
            splits={"ogb": (index_split(parts, len(y), "ogb"),)},
        )


@contextmanager
def opened(path: Path) -> Iterator[Folder]:
    if path.is_dir():
        yield path
    else:
        with zipfile.ZipFile(path) as archive:
            yield zipfile.Path(archive)


def find_root(folder: Folder) -> Folder:
    """The archive holds one folder (`arxiv`), which holds `raw` and `split`; an extracted one may be given itself."""
    candidates: list[Folder] = [folder, *folder.iterdir()]
    for candidate in candidates:
        if (candidate / "raw").is_dir():
            return candidate
    raise DataError("there is no folder 'raw' inside.", "Give OGB's archive, or the folder that holds raw and split.")


def read_table(file: Folder, dtype: type[np.float32] | type[np.int64]) -> NDArray[Any]:
    """All columns of one type, said beforehand: guessed from the first rows, it might not fit later ones."""
    import pyarrow
    from pyarrow import csv

    if not file.exists():
        raise DataError(f"{file.name} is missing.", "Replace it by a fresh copy.")
    try:
        text = gzip.decompress(file.read_bytes())
        names = [str(column) for column in range(text.split(b"\n", 1)[0].count(b",") + 1)]
        types = dict.fromkeys(names, pyarrow.from_numpy_dtype(dtype))
        table = csv.read_csv(
            io.BytesIO(text),
            read_options=csv.ReadOptions(column_names=names, use_threads=False),  # threads cannot say which row is bad
            convert_options=csv.ConvertOptions(column_types=types, null_values=[]),
        )
        return np.column_stack([column.to_numpy() for column in table.columns])
    except Exception as error:  # as in `reading`, to name the member of the archive as well
        raise DataError(f"{file.name}: {error}", "Replace it by a fresh copy.") from error


def read_integers(file: Folder) -> NDArray[np.int64]:
    return read_table(file, np.int64)
