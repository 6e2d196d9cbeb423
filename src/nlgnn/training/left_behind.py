"""How files are called while they are written, and what becomes of those whose writer was killed."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Iterable
from glob import escape
from pathlib import Path

# Of the host's name, since process numbers mean something on one host only, and folders may be shared; a short hash,
# since names may be long and have dots.
HOST = hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def half_written(path: Path) -> Path:
    """The name under which this process writes what will be called `path`."""
    return path.with_name(f".{path.name}.{HOST}.{os.getpid()}.part")


def remove_left_behind(path: Path) -> None:
    """Remove what processes of this host that are no more had begun to write in the place of `path`."""
    _remove(path.parent.glob(f".{escape(path.name)}.{HOST}.*.part"))


def remove_left_behind_in(folder: Path) -> None:
    """The same in the place of whatever is in a folder."""
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
    if process == os.getpid():  # whoever asks is not writing yet: in a container all processes may have one number
        return False
    if os.name != "posix":  # elsewhere, signal 0 is no question
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        return True
    return True
