"""Tables from data frames and files, which are checked before they are parsed; Parquet and JSON lines.

The memory of a table is estimated from the numbers of its rows and columns, which may be large in a small compressed
file.
"""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import zlib
from dataclasses import dataclass
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import IO, Any, Literal

import polars as pl
from polars.exceptions import PanicException, PolarsError

from nlgnn.errors import DataError, OptionError, nearest
from nlgnn.limits import require_memory, room
from nlgnn.tables.values import Table, check_distinct

PARQUET, JSON_LINES, DELIMITED = (".parquet", ".pq"), (".jsonl", ".ndjson", ".json"), (".csv", ".tsv")
TABLE_FILES = (*PARQUET, *JSON_LINES, *DELIMITED, ".txt", ".gz")  # files with other endings are read as text

GZIP_MAGIC, BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
# Files that are not tables, by their first bytes.
FOREIGN = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook of the old kind",
    b"%PDF": "a PDF",
    b"SQLite": "an SQLite database",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy array",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
}
HOW_TO_SAVE = "Save the table as CSV (in Excel: CSV UTF-8), TSV, Parquet or JSON lines."
# A compressed file is refused if it unpacks to more than half of the memory, or to more than both of these limits: text
# of numbers and names rarely shrinks to a fiftieth.
NEVER_TOO_LARGE, LARGEST_RATIO = 1 << 30, 200
CHUNK = 1 << 20
# Memory from reading a table to the graph that is made of it, measured on tables of a million rows.
BYTES_PER_ROW, BYTES_PER_TEXT, BYTES_PER_VALUE = 130, 24, 10
SELECT_ROWS = "Select the rows and columns that you need first, or allow more memory."


@dataclass(frozen=True)
class Content:
    """The bytes of a file, unpacked if it is compressed.

    Args:
        path: The file.
        unpacked: The unpacked bytes; None if the file is not compressed.
        unpacked_path: The file of the unpacked bytes, if they are not in memory.
    """

    path: Path
    unpacked: bytes | None = None
    unpacked_path: Path | None = None

    def source(self) -> Path | BytesIO:
        """Return the path or the unpacked bytes, for parsers."""
        return (self.unpacked_path or self.path) if self.unpacked is None else BytesIO(self.unpacked)

    def opened(self) -> BufferedIOBase:
        """Open the bytes as a file."""
        source = self.source()
        return source.open("rb") if isinstance(source, Path) else source

    def size(self) -> int:
        """Return the number of bytes."""
        return (self.unpacked_path or self.path).stat().st_size if self.unpacked is None else len(self.unpacked)

    def head(self, size: int = 1 << 16) -> bytes:
        """Return the first bytes."""
        with self.opened() as file:
            return file.read(size)


def open_content(path: Path, unpack_to: Path | None = None) -> Content:
    """Return the content of a file, and raise an error if it cannot be a table.

    Args:
        path: The file.
        unpack_to: The file into which a compressed file is unpacked; None to unpack it into memory.
    """
    check_is_file(path)
    try:
        with path.open("rb") as file:
            begin = file.read(8)
            if begin.startswith(GZIP_MAGIC):
                file.seek(0)
                if unpack_to is None:
                    content = Content(path, unpack(file, path))
                else:
                    unpack_into(unpack_to, file, path)
                    content = Content(path, unpacked_path=unpack_to)
            else:
                content = Content(path)
    except OSError as error:
        raise cannot_be_read(path, error) from error
    head = content.head(8)
    if not head:
        raise DataError(f"{path} is empty.", "Write a line of column names and a line per row.")
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            raise DataError(f"{path} is {what}, not a table.", HOW_TO_SAVE)
    return content


def check_is_file(path: Path) -> None:
    """Raise an error unless the path is a regular file."""
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
    except UnicodeEncodeError as error:  # polars refuses such names
        raise DataError(f"{path} has a name that is not UTF-8 text.", "Rename the file or its folder.") from error
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a folder.", "Name a file in it.")
    if not stat.S_ISREG(mode):  # reading a pipe may block, and /dev/zero never ends
        raise DataError(f"{path} is not a regular file.", "Save the table in a file first.")


def cannot_be_read(path: Path, error: OSError | ValueError) -> DataError:
    """Return the error about a file that cannot be opened."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DataError(f"{path} cannot be read: {reason}.", "Check its name, its folder and its permissions.")


def unpack(file: BufferedIOBase, path: Path) -> bytes:
    """Return the unpacked bytes of a gzip file, and raise an error as soon as they are too many."""
    unpacked = BytesIO()
    _unpack(file, path, unpacked)
    return unpacked.getvalue()


def unpack_into(target: Path, file: BufferedIOBase, path: Path) -> None:
    """Unpack a gzip file into another file, and raise an error as soon as it is too large."""
    with target.open("wb") as unpacked:
        _unpack(file, path, unpacked, shutil.disk_usage(target.parent).free // 2, "half of the free disk space")


def _unpack(file: BufferedIOBase, path: Path, unpacked: IO[bytes], *limit: Any) -> None:
    packed_size, size = max(1, os.fstat(file.fileno()).st_size), 0
    try:
        with gzip.GzipFile(fileobj=file) as stream:
            while chunk := stream.read(CHUNK):
                size += unpacked.write(chunk)
                check_unpacked_size(size, packed_size, path, *limit)
                if not limit:
                    require_memory(CHUNK, path, SELECT_ROWS)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged or was cut off ({error}).", "Copy it again; gzip -t tests it.") from error


def check_unpacked_size(
    size: int, packed_size: int, path: Path, limit: int | None = None, words: str = "half of this machine's memory"
) -> None:
    """Raise an error if a file unpacks to a suspicious size, or to more than a limit: by default half of the memory."""
    limit = memory_bytes() // 2 if limit is None else limit
    if size > limit or (size > NEVER_TOO_LARGE and size > LARGEST_RATIO * packed_size):
        reason = words if size > limit else f"{LARGEST_RATIO} times its own size"
        raise DataError(
            f"{path} unpacks to more than {size / 1e9:.1f} GB, which is more than {reason}.",
            "If you expect this size, unpack the file first, or save it as Parquet, and name the new file.",
        )


def check_table_memory(content: Content, columns: int) -> None:
    """Raise an error if a table of text needs more memory than there is, estimated from its lines and columns."""
    size = content.size()
    per_row = BYTES_PER_ROW + BYTES_PER_TEXT * columns

    def needed(rows: int) -> int:
        return size + rows * per_row

    allowed, _ = room()
    if allowed is not None and needed(size) > allowed:  # else there is room even for rows of one byte
        require_memory(needed(count_lines(content)), f"{content.path}", SELECT_ROWS)


def count_lines(content: Content) -> int:
    """Return the number of line ends."""
    with content.opened() as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(CHUNK), b""))


def memory_bytes() -> int:
    """Return the memory of this machine; that of a large one if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 36


def read_table(source: object, what: str = "the table") -> Table:
    """Read a table from a file or a data frame.

    CSV and TSV (the delimiter is found by the ending and the header), Parquet and JSON lines are read; text formats may
    be compressed by gzip. Cells of CSV and TSV files stay text.

    Args:
        source: A path, a data frame of polars or pandas, or a `Table`, which is returned.
        what: The name of a data frame in messages.

    Returns:
        The table.

    Raises:
        DataError: If the file is missing, damaged or empty.
        OptionError: If the source is of another type.

    Example:
        >>> read_table(pl.DataFrame({"id": ["a", "b"]})).columns
        ('id',)
    """
    if isinstance(source, (str, Path)):
        return _read_file(Path(source))
    if isinstance(source, Table):
        return source
    if isinstance(source, pl.DataFrame):
        return Table.from_frame(source, what)
    if type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
        return Table.from_frame(_from_pandas(source, what), what)
    raise OptionError(f"{what} is a {type(source).__name__}.", "Give a path, or a data frame of polars or pandas.")


def _from_pandas(frame: Any, what: str) -> pl.DataFrame:
    # Ids are often the index. An unnamed index of integers only remains from row numbers after filtering or sorting.
    unnamed = all(name is None for name in frame.index.names)
    frame = frame.reset_index(drop=unnamed and frame.index.dtype.kind in "iu").rename(columns=str)
    check_distinct(list(frame.columns), what)
    try:
        return pl.from_pandas(frame)
    except Exception as error:  # Arrow, pandas and polars have their own exceptions
        raise DataError(
            f"{what} cannot be read ({str(error).splitlines()[0]}).", "Give each column values of one type."
        ) from error


def _read_file(path: Path) -> Table:
    from nlgnn.tables.csv import read_delimited
    from nlgnn.tables.json_lines import read_json_lines

    content = open_content(path)
    form, ending = form_of(content)
    if form == "parquet":
        return open_parquet(content)
    return read_json_lines(content) if form == "json" else read_delimited(content, ending)


def form_of(content: Content) -> tuple[Literal["parquet", "json", "delimited"], str]:
    """Return the format of a table, and the ending of the name of its file."""
    endings = [ending.lower() for ending in content.path.suffixes]
    ending = next((ending for ending in reversed(endings) if ending != ".gz"), "")
    head = content.head(64).removeprefix(BOM).lstrip()
    if ending in PARQUET or head.startswith(b"PAR1"):
        return "parquet", ending
    return "json" if ending in JSON_LINES or (
        ending not in DELIMITED and head.startswith(b"{")
    ) else "delimited", ending


def open_parquet(content: Content, whole: bool = True) -> Table:
    """Open a Parquet file whose columns are read when they are used.

    pyarrow reads it, because it reports a damaged file where polars would panic.

    Args:
        content: The file.
        whole: Whether the whole table must fit into memory. The file is then mapped, which is faster, but keeps in
            memory what was read as long as there is room.
    """
    import pyarrow
    from pyarrow import parquet

    faults = (pyarrow.ArrowException, OSError, PolarsError, PanicException, TypeError, ValueError)
    source = content.source()
    try:
        file = parquet.ParquetFile(source if isinstance(source, BytesIO) else str(source), memory_map=whole)
        columns, num_rows = tuple(file.schema_arrow.names), file.metadata.num_rows
    except faults as error:
        raise damaged(content, error) from error
    if whole:
        values = num_rows * len(columns)  # a few bytes can encode one value 10^12 times
        needed = num_rows * BYTES_PER_ROW + values * BYTES_PER_VALUE + most_list_values(file.metadata) * BYTES_PER_VALUE
        require_memory(needed, f"{content.path}, which has {num_rows:,} rows,", SELECT_ROWS)

    def load(name: str) -> pl.Series:
        try:
            table = file.read(columns=[name])
            table.validate(full=True)  # polars does not check what it is given
            series = pl.Series(name, table.column(0))
        except faults as error:
            raise damaged(content, error, f", column {name!r}") from error
        if len(series) != num_rows:
            raise damaged(content, f"{len(series)} values instead of {num_rows}", f", column {name!r}")
        return series

    return Table(str(content.path), columns, num_rows, load)


def most_list_values(metadata: Any) -> int:
    """Return the largest number of values in the lists of a column of a Parquet file, whose columns are read singly."""
    sums = [0] * metadata.num_columns
    for group in range(metadata.num_row_groups):
        of_group = metadata.row_group(group)
        sums = [
            total + max(0, of_group.column(place).num_values - of_group.num_rows) for place, total in enumerate(sums)
        ]
    return max(sums, default=0)


def damaged(content: Content, error: object, where: str = "") -> DataError:
    """Return the error about a Parquet file that cannot be read."""
    reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return DataError(
        f"{content.path}{where} cannot be read as Parquet ({reason}).", "It is damaged or was cut off: copy it again."
    )


def not_utf8(where: str, content: Content) -> DataError:
    """Return the error about text in another encoding."""
    return DataError(
        f"{where} is not UTF-8 text.",
        f"Save the file as UTF-8; if it is Latin-1: iconv -f latin1 -t utf-8 {content.path} > utf8-{content.path.name}",
    )
