"""Opening a user's file: is it there, may it be read, and is what is packed in it of a sensible size?"""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase, BytesIO
from pathlib import Path

from nlgnn.errors import DataError, nearest

GZIP_MAGIC = b"\x1f\x8b"
# What no graph table is, by how such files begin.
FOREIGN = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook of the old kind",
    b"%PDF": "a PDF",
    b"SQLite": "an SQLite database",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy array",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
}
# A packed file is refused where it unpacks to more than the first and to more than so many times its own size, or to
# more than half of the memory of this machine: text of numbers and names seldom shrinks to a fiftieth.
NEVER_TOO_LARGE, LARGEST_RATIO = 1 << 30, 200
CHUNK = 1 << 20


@dataclass(frozen=True)
class Content:
    """The bytes of a file, unpacked where they were packed.

    Args:
        path: the file.
        unpacked: its bytes where they had to be unpacked; None = as they stand in the file.
    """

    path: Path
    unpacked: BytesIO | None = None

    def source(self) -> Path | BytesIO:
        """What parsers take."""
        if self.unpacked is None:
            return self.path
        self.unpacked.seek(0)
        return self.unpacked

    @contextmanager
    def opened(self) -> Iterator[BufferedIOBase]:
        source = self.source()
        if isinstance(source, BytesIO):
            yield source
        else:
            with source.open("rb") as file:
                yield file

    def head(self, size: int = 1 << 16) -> bytes:
        with self.opened() as file:
            return file.read(size)


def open_content(path: Path) -> Content:
    """The file's content, or an error that says why there is none."""
    check_is_file(path)
    try:
        with path.open("rb") as file:
            begin = file.read(8)
            if begin.startswith(GZIP_MAGIC):
                file.seek(0)
                content = Content(path, unpack(file, path))
            else:
                content = Content(path)
    except OSError as error:
        raise cannot_be_read(path, error) from error
    head = content.head(8)
    if not head:
        raise DataError(f"{path} is empty.", "A table has a line of column names and a line for each row.")
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            raise DataError(f"{path} is {what}, not a table.", "Save the table as CSV, TSV, Parquet or JSON lines.")
    return content


def check_is_file(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        how = "Check the name and the folder."
        if path.parent.is_dir():
            neighbours = sorted(entry.name for entry in path.parent.iterdir())
            guess = nearest(path.name, neighbours)
            how = guess if guess.startswith("Did you mean") else how
        raise DataError(f"{path} does not exist.", how) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise cannot_be_read(path, error) from error
    try:
        str(path).encode()
    except UnicodeEncodeError as error:  # polars takes no such name
        raise DataError(f"{path} has a name that is not UTF-8 text.", "Rename the file or its folder.") from error
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a folder.", "Name the file in it.")
    if not stat.S_ISREG(mode):  # a pipe would be waited for, /dev/zero never ends
        raise DataError(f"{path} is not a regular file.", "Save the table in a file first.")


def cannot_be_read(path: Path, error: OSError | ValueError) -> DataError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DataError(f"{path} cannot be read: {reason}.", "Check the file and its permissions.")


def unpack(file: BufferedIOBase, path: Path) -> BytesIO:
    """The unpacked bytes of a gzip file; an error as soon as they are too many."""
    packed_size = max(1, os.fstat(file.fileno()).st_size)
    unpacked = BytesIO()
    try:
        with gzip.GzipFile(fileobj=file) as stream:
            while chunk := stream.read(CHUNK):
                unpacked.write(chunk)
                check_unpacked_size(unpacked.tell(), packed_size, path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} is damaged or was cut off ({error}).",
            "Copy it again; gzip -t tests it.",
        ) from error
    return unpacked


def check_unpacked_size(size: int, packed_size: int, path: Path) -> None:
    too_much_for_memory = size > memory_bytes() // 2
    if too_much_for_memory or (size > NEVER_TOO_LARGE and size > LARGEST_RATIO * packed_size):
        reason = "half of this machine's memory" if too_much_for_memory else f"{LARGEST_RATIO} times its own size"
        raise DataError(
            f"{path} unpacks to more than {size / 1e9:.1f} GB, which is more than {reason}.",
            "If it is what you expect, unpack it first (for memory's sake: save it as Parquet) and name that file.",
        )


def memory_bytes() -> int:
    """The memory of this machine; where the system does not say, that of a large one."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 36
