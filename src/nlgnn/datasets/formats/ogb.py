"""The raw layout of the Open Graph Benchmark: csv.gz files in a zip archive or in a folder."""

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

from nlgnn.datasets.formats.common import FRESH_COPY, PARTS, reading
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split

Folder = Path | zipfile.Path


def read_ogb(path: Path, *, name: str, directed: bool, split: str = "time") -> Graph:
    """Read tables without header: edges, features, labels, the number of nodes, and three lists of node numbers."""
    with reading(path), opened(path) as folder:
        root = find_root(folder)
        (num_nodes,) = read_table(root / "raw" / "num-node-list.csv.gz")[0]
        y = read_table(root / "raw" / "node-label.csv.gz")[:, 0]
        if len(y) != num_nodes:
            raise DataError(f"There are {len(y)} labels, but {num_nodes} nodes by num-node-list.csv.gz.", FRESH_COPY)
        train, val, test = (read_table(root / "split" / split / f"{part}.csv.gz")[:, 0] for part in PARTS)
        return Graph(
            x=read_table(root / "raw" / "node-feat.csv.gz", np.float32),
            edge_index=read_table(root / "raw" / "edge.csv.gz").T,
            y=y,
            directed=directed,
            name=name,
            splits={"ogb": (Split.from_indices(len(y), train, val, test, protocol="ogb"),)},
        )


@contextmanager
def opened(path: Path) -> Iterator[Folder]:
    """Open a folder or an archive."""
    if path.is_dir():
        yield path
    else:
        with zipfile.ZipFile(path) as archive:
            yield zipfile.Path(archive)


def find_root(folder: Folder) -> Folder:
    """Return the folder that holds `raw` and `split`: the given one, or the one inside it (`arxiv`)."""
    candidates: list[Folder] = [folder, *folder.iterdir()]
    for candidate in candidates:
        if (candidate / "raw").is_dir():
            return candidate
    raise DataError("It holds no folder 'raw'.", "Give the archive of OGB, or the folder that holds raw and split.")


def read_table(file: Folder, dtype: type[np.float32] | type[np.int64] = np.int64) -> NDArray[Any]:
    """Read a table whose columns have one type. Inferred from the first rows, it might not fit later ones."""
    import pyarrow
    from pyarrow import csv

    if not file.exists():
        raise DataError(f"{file.name} is missing.", FRESH_COPY)
    try:
        text = gzip.decompress(file.read_bytes())
        names = [str(column) for column in range(text.split(b"\n", 1)[0].count(b",") + 1)]
        types = dict.fromkeys(names, pyarrow.from_numpy_dtype(dtype))
        table = csv.read_csv(
            io.BytesIO(text),
            read_options=csv.ReadOptions(column_names=names, use_threads=False),  # threads cannot report the faulty row
            convert_options=csv.ConvertOptions(column_types=types, null_values=[]),
        )
        return np.column_stack([column.to_numpy() for column in table.columns])
    except Exception as error:  # as in `reading`, to name the member of the archive as well
        raise DataError(f"{file.name}: {error}", FRESH_COPY) from error
