"""FeaturesOnDisk: features that stay in a file and are read a few rows at a time."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import DataError

CHUNK_BYTES = 1 << 22  # fits into CPU caches


@dataclass(frozen=True, eq=False)
class FeaturesOnDisk:
    """Features of a graph that was given a memory map.

    Rows are read from the file instead of the map, whose pages would count as memory of this process.

    Args:
        path: The file of float32 numbers, row by row.
        offset: The number of bytes before the first row.
        shape: The numbers of rows and columns.
        row_factors: The factor of each row, `[num_nodes]`; None if rows are not scaled.
    """

    path: Path
    offset: int
    shape: tuple[int, int]
    row_factors: NDArray[np.float64] | None = None

    @classmethod
    def from_memmap(cls, table: np.memmap, what: str) -> FeaturesOnDisk:
        """Return the features in the file of a memory map."""
        whole = isinstance(table.base, mmap.mmap)  # the base of a slice is another memory map
        if table.mode == "c":
            what_is_wrong = f"{what} are a memory map whose changes are not written to its file (mode 'c')."
            raise DataError(what_is_wrong, "Open it with mmap_mode='r', or read it by np.array(x).")
        if not (whole and table.ndim == 2 and table.dtype == np.float32 and table.flags.c_contiguous):
            raise DataError(
                f"{what} on disk are {'' if whole else 'a part of '}an array of type {table.dtype} and shape "
                f"{table.shape}, {'' if table.flags.c_contiguous else 'not '}row after row.",
                "Save all of it by np.save(path, np.ascontiguousarray(x, np.float32)), or read it by np.array(x).",
            )
        rows, columns = table.shape
        return cls(Path(str(table.filename)), table.offset, (rows, columns))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return 2

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.shape[0] * self.shape[1]

    def multiplied(self, factors: NDArray[np.float64]) -> FeaturesOnDisk:
        """Return the features of the same file with each row multiplied by a factor."""
        return replace(self, row_factors=factors if self.row_factors is None else self.row_factors * factors)

    def part(self, first: int, stop: int) -> FeaturesOnDisk:
        """Return the rows from one number to another, which stay in the same file."""
        factors = None if self.row_factors is None else self.row_factors[first:stop]
        offset = self.offset + 4 * first * self.shape[1]
        return replace(self, offset=offset, shape=(stop - first, self.shape[1]), row_factors=factors)

    def stored_chunks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield the number of the first row and some unscaled rows, in an array that the next step overwrites."""
        num_rows, step = self.shape[0], rows_in_chunk(self.shape[1])
        buffer = np.empty((min(step, num_rows), self.shape[1]), np.float32)
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                for start in range(0, num_rows, step):
                    rows = buffer[: num_rows - start]
                    if file.readinto(rows.data) < rows.nbytes:
                        raise DataError(f"{self.path} is shorter than it was.", "Restore the whole file.")
                    yield start, rows
        except OSError as error:
            raise DataError(f"{self.path} cannot be read: {error.strerror}.", "Restore the file.") from error

    def chunks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield the number of the first row and some rows, multiplied by their factors."""
        for start, rows in self.stored_chunks():
            if self.row_factors is not None:
                rows[:] = rows * self.row_factors[start : start + len(rows), None]
            yield start, rows


def row_chunks(table: NDArray[np.float32] | FeaturesOnDisk) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield the number of the first row and some rows, which are valid until the next step."""
    if isinstance(table, FeaturesOnDisk):
        yield from table.chunks()
        return
    step = rows_in_chunk(table.shape[1])
    for start in range(0, len(table), step):
        yield start, table[start : start + step]


def rows_in_chunk(num_columns: int) -> int:
    """Return the number of rows that are read at once."""
    return max(1, CHUNK_BYTES // (4 * max(1, num_columns)))
