"""Amounts of memory as people write them: 8GiB, 500 MB."""

from __future__ import annotations

import re

UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def parse_size(text: str) -> int:
    """Bytes. K, M, G and T are powers of 1024, however they are written."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?\s*", text.upper())
    size = 0 if found is None else int(float(found[1]) * UNITS[found[2]])
    if found is None or size == 0 or (size < UNITS["M"] and not found[2]):  # who writes 8 means no bytes
        raise ValueError("should be an amount of memory in MiB, GiB or TiB, such as 8GiB")
    return size


def show_size(size: int) -> str:
    return f"{size / UNITS['G']:.1f} GiB" if size >= UNITS["G"] else f"{size / UNITS['M']:.0f} MiB"
