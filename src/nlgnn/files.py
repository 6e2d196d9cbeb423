"""Atomic writes, checksums and locks of files."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import escape
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

from nlgnn.errors import NlgnnError, RunFolderError

if TYPE_CHECKING:
    from filelock import BaseFileLock

# Process numbers are unique per host only, and folders may be shared between hosts. The name is hashed because host
# names may be long and contain dots.
HOST = hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically: it is either complete or unchanged.

    Args:
        path: The file to write. An existing file is replaced.
        write: Called with a temporary path in the same folder, which is renamed to `path` afterwards.

    Raises:
        OSError: If the file cannot be written, or if `path` is a folder, a device or a pipe, which renaming would
            replace.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "notes.txt"
        >>> write_whole(target, lambda path: path.write_text("complete"))
        >>> target.read_text()
        'complete'
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not an ordinary file")
    remove_stale_parts(path)
    part = part_path(path)
    try:
        write(part)
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:  # also after a second Ctrl-C
        part.unlink(missing_ok=True)


def write_whole_folder(path: Path, write: Callable[[Path], object]) -> None:
    """Create a folder atomically: it exists with all of its files or not at all.

    Args:
        path: The folder to create, which must not exist. Missing parents are created.
        write: Called with an empty temporary folder, which is renamed to `path` afterwards.

    Raises:
        OSError: If the folder cannot be written. Parents that were created for it are removed again.
    """
    part = part_path(path)
    parents = missing_parents(path)
    try:
        remove_stale_parts(path)
        part.mkdir(parents=True)
        write(part)
        part.rename(path)
    except BaseException:  # also after Ctrl-C
        shutil.rmtree(part, ignore_errors=True)
        remove_empty(parents)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, in UTF-8; characters that it cannot encode become question marks."""
    write_whole(path, lambda part: part.write_text(text, "utf-8", "replace"))


@contextmanager
def writing(path: Path, how: str = "Free some space, or name another folder.") -> Iterator[None]:
    """Turn errors of the file system into an NlgnnError that names the file and says how to go on."""
    try:
        yield
    except OSError as error:
        raise NlgnnError(f"{path} cannot be written: {error.strerror or error}.", how) from error


def missing_parents(path: Path) -> list[Path]:
    """Return the parent folders of a path that do not exist, the nearest first."""
    return [parent for parent in path.parents if not parent.exists()]


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove those of some folders that are empty."""
    for folder in folders:
        with suppress(OSError):  # another process has put something into it
            folder.rmdir()


def check_target(path: Path) -> None:
    """Raise if `write_whole` could not write a file, so that long work does not end in an error.

    Raises:
        NlgnnError: If the parent folder does not exist, or if `path` is a folder or a device.
    """
    try:
        if path.is_file() or (path.absolute().parent.is_dir() and not path.exists()):
            return
        why = "it is not an ordinary file" if path.exists() else f"there is no folder {path.parent}"
    except OSError as error:  # such as a name that is too long
        why = str(error.strerror)
    raise NlgnnError(f"{path} cannot be written: {why}.", "Name a file in a folder that exists.")


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read its bytes.

    Raises:
        OSError: If it is not a regular file: reading a pipe may wait for ever, and /dev/zero never ends.
    """
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(number, "rb")


def read_regular(path: Path, most: int) -> bytes:
    """Return the bytes of a regular file.

    Args:
        path: The file.
        most: The largest size.

    Raises:
        OSError: If the file cannot be read or is not a regular file.
        ValueError: If it is larger.
    """
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is larger than {most:,} bytes")
    return content


def sha256_of(path: Path) -> str:
    """Return the SHA-256 checksum of a regular file as hexadecimal text."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Try to take a lock without waiting, and release it at the end of the context.

    The operating system releases the lock of a process that ends in any way, including `kill -9`.

    Args:
        path: The lock file. It is created, and removed again by the process that held the lock.

    Returns:
        A context manager that gives True if this process has the lock, and False if another one has it.

    Example:
        >>> import tempfile
        >>> lock = Path(tempfile.mkdtemp()) / "work.lock"
        >>> with claim(lock) as ours, claim(lock) as again:
        ...     (ours, again)
        (True, False)
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    with _removed_at_the_end(lock):
        yield True


@contextmanager
def wait_for_lock(path: Path) -> Iterator[None]:
    """Wait until a lock is free, and hold it within the context; see `claim`."""
    from filelock import FileLock

    lock = FileLock(path, poll_interval=0.02)
    lock.acquire()
    with _removed_at_the_end(lock):
        yield


@contextmanager
def _removed_at_the_end(lock: BaseFileLock) -> Iterator[None]:
    try:
        yield
    finally:
        # While the lock is held: a process that has locked the removed file notices that, and tries again.
        with suppress(PermissionError):  # Windows removes no open file; there, filelock removes it after the release
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def part_path(path: Path) -> Path:
    """Return the temporary path under which this process writes `path`."""
    return path.with_name(f".{path.name}.{HOST}.{os.getpid()}.part")


def remove_stale_parts(path: Path) -> None:
    """Remove temporary versions of `path` that killed processes of this host left."""
    _remove(path.parent.glob(f".{escape(path.name)}.{HOST}.*.part"))


def remove_stale_parts_in(folder: Path) -> None:
    """Remove temporary files that killed processes of this host left anywhere in a folder."""
    _remove(folder.rglob(f".*.{HOST}.*.part"))


def _remove(found: Iterable[Path]) -> None:
    for path in list(found):
        number = path.name.split(".")[-2]
        if number.isdecimal() and not _is_writing(int(number)):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _is_writing(process: int) -> bool:
    if process == os.getpid():  # the caller is not writing yet; in containers all processes may have the same number
        return False
    if os.name != "posix":  # signal 0 has another meaning on other systems
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # a process of another user
        return True
    return True


def refuse_existing(path: Path) -> None:
    """Raise a `RunFolderError` if the path of a new folder exists or cannot be used."""
    try:
        exists = path.exists()
    except OSError as error:  # such as a name that is too long
        raise RunFolderError(f"{path} cannot be used: {error.strerror}.", "Name another folder (--out).") from None
    if exists and not path.is_dir():
        raise RunFolderError(f"{path} exists and is not a folder.", "Name a new folder (--out).")
    if exists:
        resume = f"Continue it (--resume {path}), name" if (path / "config.json").is_file() else "Name"
        raise RunFolderError(f"{path} exists already.", f"{resume} another folder, or remove it.")
