"""Numbers as people write them: 1,234.56 or 1.234,56, 12 %, € 30, (5), 3.5 kg, 2k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.graph.audit import listed
from nlgnn.tables.values import (
    FEW_DISTINCT,
    OR_BLANK,
    Table,
    all_parsed,
    as_text,
    check_all_parsed,
    parsed_numbers,
    simplified,
)

DecimalMark = Literal[".", ","]
LARGEST_NUMBER = 1e38  # single precision ends at 3.4e38

CODES = "EUR|USD|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RON|BRL|MXN|ZAR|TRY|RUB|KRW|SGD|HKD"
CURRENCY = rf"(?:[A-Z]{{0,2}}\p{{Sc}}|(?:{CODES})\b|kr\b\.?|Kč|zł|Fr\.)"
SCALES = {"k": 1e3, "K": 1e3, "Tsd": 1e3, "M": 1e6, "Mio": 1e6, "bn": 1e9, "Mrd": 1e9}
UNITS = (
    "kg|mg|g|t|lbs?|oz|km/h|km²|km|m²|m³|cm|mm|m|mi|mph|ft|ha|ml|l|hrs?|hours?|h|mins?|min|ms|secs?|s|days?|d|weeks?"
)
UNITS += "|months?|years?|yrs?|°C|°F|kWh|MWh|kW|MW|W|V|GHz|MHz|Hz|TB|GB|MB|KB|kB|GiB|MiB|bps|px|pcs|Stk|Stück"
BLANK = r"[\s\u00a0\u2000-\u200b\u202f\u205f\u3000\ufeff]"
DASH, QUOTE = "[-\u2010-\u2013\u2212\ufe63\uff0d]", "['’ʼ´`]"
WRITTEN = (
    rf"^{BLANK}*(?P<open>\()?(?P<sign>[+]|{DASH})?{BLANK}?(?P<before>{CURRENCY})?{BLANK}?(?P<inner_sign>[+]|{DASH})?"
    rf"(?P<digits>[0-9.,](?:(?:[0-9.,]|{BLANK}|{QUOTE})*[0-9.,])?)(?P<exponent>[eE][+-]?[0-9]+)?"
    rf"(?:{BLANK}?(?P<unit>{UNITS})\.?|(?:{BLANK}?(?P<scale>{'|'.join(SCALES)})\.?)?"
    rf"(?:{BLANK}?(?P<after>{CURRENCY}|[%‰]))?)(?P<last_sign>{DASH})?(?P<close>\))?{BLANK}*$"
)
SIGNS = ("sign", "inner_sign", "last_sign")
PARTS_PER = {"%": 100.0, "‰": 1000.0}
# Marks of missing values in columns of numbers and dates. In other columns they may be values.
NO_VALUE: tuple[str, ...] = ("-", "--", "–", "—", "?", ".", "..", "none", "n.a.", "n. a.", "unknown", "missing", "#n/a")
NO_VALUE += ("#div/0!", "#num!", "#ref!", "#value!", "#name?", "#null!")
NO_VALUE += ("0000-00-00", "0000-00-00 00:00:00", "00/00/0000", "00.00.0000")
LONGEST_MARK = max(map(len, NO_VALUE))


@dataclass(frozen=True, eq=False)
class NumbersFound:
    """Numbers of a column.

    Args:
        numbers: The numbers, null or NaN where a cell is missing or is not a number.
        present: The cells, null where missing.
        decimal: The decimal mark.
        remarks: Decisions that people should know.
    """

    numbers: pl.Series
    present: pl.Series
    decimal: DecimalMark = "."
    remarks: tuple[str, ...] = ()


def _convention(group: str, decimal: str) -> str:
    """Return the pattern of digits with one mark of thousands and a decimal mark. Some groups have two digits."""
    marks = (group, BLANK, QUOTE)
    grouped = "|".join(rf"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}" for mark in marks)
    return rf"^(?:[0-9]+|{grouped})?(?:{decimal}[0-9]*)?$"


CONVENTIONS: dict[DecimalMark, str] = {".": _convention(",", r"\."), ",": _convention(r"\.", ",")}


def find_numbers(values: pl.Series, decimal: DecimalMark = ".") -> NumbersFound:
    """Return the numbers of a column of any type.

    The decimal mark is the one by which more distinct cells are numbers. Per cent are fractions. Marks such as "-" are
    missing values.

    Args:
        values: The column.
        decimal: The decimal mark if the column does not decide, as where all cells are like 1,234.

    Example:
        >>> find_numbers(pl.Series(["1.234,56", "(7)", "€ 30", "12 %"])).numbers.to_list()
        [1234.56, -7.0, 30.0, 0.12]
    """
    values = simplified(values)
    numbers = parsed_numbers(values)
    if values.dtype != pl.String or all_parsed(values, numbers):
        return NumbersFound(numbers, values)
    text, remarks = without_marks(as_text(values))
    if all_parsed(text, numbers) or not mostly(text, WRITTEN):
        return NumbersFound(numbers, text, decimal, remarks)
    if text.n_unique() > FEW_DISTINCT * len(text):
        found = _find_written(text, decimal)
    else:
        distinct = text.drop_nulls().unique()
        found = _find_written(distinct, decimal)
        numbers = text.replace_strict(distinct, found.numbers, default=None, return_dtype=pl.Float64)
        found = replace(found, numbers=numbers, present=text)
    return replace(found, remarks=(*remarks, *found.remarks))


def mostly(text: pl.Series, pattern: str) -> bool:
    """Return whether at least half of the cells match a pattern."""
    return 2 * int(text.str.contains(pattern).sum() or 0) >= len(text) - text.null_count()


def without_marks(text: pl.Series) -> tuple[pl.Series, tuple[str, ...]]:
    """Return text with null for marks of missing values such as "-", and the remark about them, if any."""
    marks = (text.str.len_bytes().le(LONGEST_MARK) & text.str.to_lowercase().is_in(NO_VALUE)).fill_null(False)
    if not marks.any():
        return text, ()
    found = listed([repr(mark) for mark in text.filter(marks).unique().sort()])
    left = pl.select(pl.when(~marks).then(pl.lit(text))).to_series().alias(text.name)
    return left, (f"{found} read as missing",)


def _find_written(text: pl.Series, default: DecimalMark) -> NumbersFound:
    """Return the numbers of text by the decimal mark that fits, and remarks."""
    parts = text.str.extract_groups(WRITTEN).struct.unnest()
    units = parts["unit"].drop_nulls().unique().to_list()
    if len(units) > 1:  # numbers of several units cannot be compared
        parts = parts.with_columns(digits=pl.when(pl.col("unit").is_null()).then("digits"))
    by_mark = {mark: _by_convention(parts, mark) for mark in CONVENTIONS}
    point, comma = (numbers.is_not_null().sum() for numbers in by_mark.values())
    decimal: DecimalMark = default if point == comma else "." if point > comma else ","
    numbers = by_mark[decimal]
    differs = (by_mark["."] != by_mark[","]).fill_null(False)  # cells that are numbers by both marks
    remarks = []
    if point == comma and differs.any():
        # The first in alphabetical order does not depend on the order of rows.
        cell = str(text.filter(differs).min())
        remarks.append(f"{cell!r} was read as {numbers[text.index_of(cell)]:g}, which is not sure")  # type: ignore[index]
    elif decimal == "," and by_mark["."].ne_missing(by_mark[","]).any():
        remarks.append("decimal commas")
    used = parts.filter(numbers.is_not_null())
    if used["open"].is_not_null().any():
        remarks.append("numbers in brackets are negative")
    remarks += [f"unit {unit} left off" for unit in units if len(units) == 1]
    remarks += _unit_remarks(used)
    return NumbersFound(numbers.alias(text.name), text, decimal, tuple(remarks))


def _by_convention(parts: pl.DataFrame, decimal: DecimalMark) -> pl.Series:
    """Return the numbers that parts of cells are by one decimal mark; null for other cells."""
    digits = pl.col("digits")
    is_number = digits.str.contains(CONVENTIONS[decimal]) & digits.str.contains("[0-9]")
    is_number &= pl.col("open").is_null() == pl.col("close").is_null()
    is_number &= pl.sum_horizontal(pl.col("open", *SIGNS).is_not_null()) < 2
    others = rf"{QUOTE}|{BLANK}|[{'.' if decimal == ',' else ','}]"
    plain = digits.str.replace_all(others, "").str.replace(",", ".", literal=True)
    number = pl.concat_str(plain, pl.col("exponent").fill_null("")).cast(pl.Float64, strict=False)
    positive = pl.all_horizontal(pl.col("open").is_null(), *(pl.col(sign).fill_null("+") == "+" for sign in SIGNS))
    divisor = pl.col("after").replace_strict(PARTS_PER, default=1.0, return_dtype=pl.Float64)
    number *= pl.col("scale").replace_strict(SCALES, default=1.0, return_dtype=pl.Float64)
    return parts.select(
        pl.when(is_number).then(pl.when(positive).then(number).otherwise(-number) / divisor)
    ).to_series()


def _unit_remarks(parts: pl.DataFrame) -> list[str]:
    """Return remarks about percent signs and currencies of cells."""
    units = pl.concat([parts["before"], parts["after"]]).drop_nulls().unique().sort().to_list()
    currencies = [unit for unit in units if unit not in PARTS_PER]
    remarks = []
    if len(currencies) < len(units):
        lacking = not parts["after"].is_in(list(PARTS_PER)).fill_null(False).all()
        remarks.append("per cent read as fractions" + ", but some values lack the sign" * lacking)
    if scales := parts["scale"].drop_nulls().unique().sort().to_list():
        remarks.append(", ".join(f"{scale} read as {SCALES[scale]:,.0f}" for scale in scales))
    if len(currencies) > 1:
        remarks.append(f"currencies were not converted: {listed(currencies)}")
    return remarks


def as_numbers(values: pl.Series, table: Table, decimal: DecimalMark = ".") -> NDArray[np.float64]:
    """Return numbers, NaN where missing, and raise an error for the first cell that is not a finite number."""
    # Each of two stacked tables may have its own decimal mark.
    return checked_numbers([find_numbers(part, decimal) for part in table.parts(values)], values.name, table)


def checked_numbers(found: Sequence[NumbersFound], name: str, table: Table) -> NDArray[np.float64]:
    """Return the numbers of the parts of a column, NaN where missing, or raise an error as `as_numbers` does."""
    numbers = pl.concat([part.numbers for part in found])
    check_all_parsed(pl.concat([part.present for part in found]).alias(name), numbers, "a number", table)
    array = numbers.to_numpy()
    too_large = np.flatnonzero(np.abs(array) > LARGEST_NUMBER)
    if len(too_large):
        what = f"is {array[too_large[0]]:g}: no finite number of single precision"
        raise table.fault(too_large, name, what, f"Give a smaller number, {OR_BLANK}")
    return array
