"""What a training runs on."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    found = re.search(r"model name\s*: (.*)", text_of("/proc/cpuinfo"))
    return found[1] if found else platform.processor() or platform.machine()


def text_of(path: str) -> str:
    """Of a file that may not be there."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""
