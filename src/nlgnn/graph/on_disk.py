"""FeaturesOnDisk: a table of features that stays in its file and is read a few rows at a time."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import DataError

CHUNK_BYTES = 1 << 22  # stays in the caches of a CPU between being read and being multiplied


@dataclass(frozen=True, eq=False)
class FeaturesOnDisk:
    """What `Graph.x` is when the graph was given a memory map: where the rows lie, and by what each is multiplied.

    Rows are read from the file, not through the map, whose pages would count as memory of this process.

    Args:
        path: the file, float32 numbers row after row.
        offset: bytes before the first row.
        shape: rows and columns.
        row_factors: what each row is multiplied by, `[num_nodes]`; None = as it stands in the file.
    """

    path: Path
    offset: int
    shape: tuple[int, int]
    row_factors: NDArray[np.float64] | None = None

    @classmethod
    def from_memmap(cls, table: np.memmap, what: str) -> FeaturesOnDisk:
        whole = isinstance(table.base, mmap.mmap)  # the base of a part is the map that it is a part of
        if table.mode == "c":
            raise DataError(
                f"{what} are a memory map whose changes are not written to its file (mode 'c').",
                "Open it with mmap_mode='r', or read it: np.array(x).",
            )
        if not (whole and table.ndim == 2 and table.dtype == np.float32 and table.flags.c_contiguous):
            raise DataError(
                f"{what} on disk are {'' if whole else 'a part of '}an array of type {table.dtype} and shape "
                f"{table.shape}, {'' if table.flags.c_contiguous else 'not '}row after row.",
                "Save them whole: np.save(path, np.ascontiguousarray(x, np.float32)). Or read them: np.array(x).",
            )
        rows, columns = table.shape
        return cls(Path(str(table.filename)), table.offset, (rows, columns))

    @property
    def ndim(self) -> int:
        return 2

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def multiplied(self, factors: NDArray[np.float64]) -> FeaturesOnDisk:
        """The same file, each row multiplied by its factor as it is read."""
        return replace(self, row_factors=factors if self.row_factors is None else self.row_factors * factors)

    def stored_chunks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The first row's number and some rows as they stand in the file. The array is overwritten by the next."""
        num_rows, step = self.shape[0], rows_in_chunk(self.shape[1])
        buffer = np.empty((min(step, num_rows), self.shape[1]), np.float32)
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                for start in range(0, num_rows, step):
                    rows = buffer[: num_rows - start]
                    if file.readinto(rows.data) < rows.nbytes:
                        raise DataError(f"{self.path} is shorter than it was.", "Put the whole file back.")
                    yield start, rows
        except OSError as error:
            raise DataError(f"{self.path} cannot be read: {error.strerror}.", "Put the file back.") from error

    def chunks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The same with each row multiplied by its factor."""
        for start, rows in self.stored_chunks():
            if self.row_factors is not None:
                rows[:] = rows * self.row_factors[start : start + len(rows), None]
            yield start, rows


def row_chunks(table: NDArray[np.float32] | FeaturesOnDisk) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The first row's number and some rows, wherever the table is; each only until the next is asked for."""
    if isinstance(table, FeaturesOnDisk):
        yield from table.chunks()
        return
    step = rows_in_chunk(table.shape[1])
    for start in range(0, len(table), step):
        yield start, table[start : start + step]


def rows_in_chunk(num_columns: int) -> int:
    return max(1, CHUNK_BYTES // (4 * max(1, num_columns)))
