"""How files are called while they are written, and what becomes of those whose writer was killed."""

from __future__ import annotations

import os
import shutil
from glob import escape
from pathlib import Path


def half_written(path: Path) -> Path:
    """The name under which this process writes what will be called `path`."""
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def remove_left_behind(path: Path) -> None:
    """Remove what processes that are no more had begun to write in the place of `path`."""
    for found in path.parent.glob(f".{escape(path.name)}.*.part"):
        number = found.name.split(".")[-2]
        if number.isdecimal() and not _is_running(int(number)):
            if found.is_dir():
                shutil.rmtree(found, ignore_errors=True)
            else:
                found.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    if os.name != "posix":  # elsewhere, signal 0 is no question
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        return True
    return True
