"""Sizes, choices and rates that a module can take."""

from __future__ import annotations

from collections.abc import Sequence

from nlgnn.errors import OptionError


def check_width(name: str, width: int) -> int:
    if width < 1:
        raise OptionError(f"{name}={width} is not a size.", "Give a whole number of at least 1.")
    return width


def check_choice(name: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise OptionError(f"{name}={value!r} is unknown.", f"Choose {', '.join(choices[:-1])} or {choices[-1]}.")
    return value


def check_rate(name: str, rate: float) -> float:
    if not 0 <= rate < 1:
        raise OptionError(f"{name}={rate} is not a dropout rate.", "Give a number from 0 (included) to 1 (excluded).")
    return rate
