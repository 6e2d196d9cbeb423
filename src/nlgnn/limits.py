"""Limits of memory: sizes as text, the memory that is free, and the refusal of work that needs more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from pydantic import ByteSize, TypeAdapter, ValidationError

from nlgnn.errors import DataError

SHARE_OF_FREE_MEMORY = 0.7  # estimates have been a quarter too low
_limit: ContextVar[int | None] = ContextVar("memory limit", default=None)


def parse_size(text: str) -> int:
    """Return a size such as 8GiB or 500MB in bytes.

    Raises:
        ValueError: If the text is not a size, or is a bare number below a million, which is probably not meant in
            bytes.

    Example:
        >>> parse_size("1.5GiB")
        1610612736
    """
    try:
        size = int(TypeAdapter(ByteSize).validate_python(text))
    except (ValidationError, OverflowError):
        size = 0
    if not 0 < size < 2**63 or (text.strip().isdecimal() and size < 1_000_000):
        raise ValueError("should be an amount of memory in MiB, GiB or TiB, such as 8GiB")
    return size


def show_size(size: int) -> str:
    """Return a number of bytes as text, such as 1.5 GiB."""
    return ByteSize(size).human_readable(separator=" ")


@contextmanager
def memory_limit(size: str | None) -> Iterator[None]:
    """Limit the memory that the process may have after a table or graph is read in this context.

    Args:
        size: A size such as 8GiB; None for most of the free memory. Text that is no size is ignored: the option that it
            was given for reports it.
    """
    limit = None
    if size is not None:
        with suppress(ValueError):
            limit = parse_size(str(size))
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def room() -> tuple[int | None, str]:
    """Return how many more bytes this process may take, None if that is unknown, and the words for the limit."""
    free, limit = free_bytes(), _limit.get()
    usable = None if free is None else int(SHARE_OF_FREE_MEMORY * free)
    if limit is None or (usable is not None and resident_bytes() + usable < limit):
        return usable, "" if usable is None else f"{show_size(usable)} can be used"
    resident = resident_bytes()
    words = f"{show_size(limit)} are allowed (memory), of which the program itself takes {show_size(resident)}"
    return max(0, limit - resident), words


def require_memory(needed: int, what: object, how: str) -> None:
    """Raise a `DataError` with both figures if reading something needs more memory than there is.

    Args:
        needed: The bytes that reading it takes, estimated.
        what: What is read, as the subject of a sentence.
        how: A sentence on what to do.
    """
    allowed, words = room()
    if allowed is not None and needed > allowed:
        raise DataError(f"{what} would take about {show_size(needed)} of memory, but {words}.", how)


def resident_bytes() -> int:
    """Return the resident memory of this process; 0 if the system does not report it."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text("utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def free_bytes() -> int | None:
    """Return the free memory of the machine or container, without swapping; None if it is unknown.

    An address space that the system limits (`ulimit -v`) counts as well.
    """
    free = []
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
        free += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    with suppress(OSError, ValueError):  # "max" means that there is no limit
        limit, taken = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text("utf-8")) for name in ("max", "current"))
        free.append(limit - taken)
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
        if address_space != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
            free.append(max(0, address_space - pages * os.sysconf("SC_PAGE_SIZE")))
    return min(free, default=None)
