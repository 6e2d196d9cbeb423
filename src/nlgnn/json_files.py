"""JSON and TOML from regular files that somebody may have changed, of bounded size, depth and numbers."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

from nlgnn.files import read_regular

LARGEST_FILE = 1 << 26
MOST_DIGITS = 18  # whole numbers beyond fit no array


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        OSError: If the file is missing, cannot be read or is not a regular file.
        ValueError: If it is not JSON, is too large or too deeply nested, or holds a number that is not finite or has
            more than 18 digits.
    """
    return parse_json(read_regular(path, LARGEST_FILE).decode())


def parse_json(text: str) -> Any:
    """Return the content of JSON text; see `read_json`.

    Example:
        >>> parse_json('{"runs": 10}')
        {'runs': 10}
    """
    try:
        return json.loads(text, parse_int=_whole_number, parse_float=_number, parse_constant=_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of TOML text.

    Raises:
        ValueError: If it is not TOML, is too deeply nested, or holds a whole number of more than 18 digits.
    """
    try:
        return tomllib.loads(text, parse_float=_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS + 1:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is not a finite number")
    return number
