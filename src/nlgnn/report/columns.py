"""Columns: a table as a page carries it. Numbers are base64 of their bytes, a fifth of what their digits would take."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any] | Sequence[str]
Columns = Mapping[str, Column]


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    """Columns of rows that have the same keys: text where the first value is, else numbers; None is not a number."""
    first: Mapping[str, Any] = rows[0] if rows else {}
    return {
        name: [str(row[name]) for row in rows]
        if isinstance(value, str)
        else np.array([np.nan if row[name] is None else row[name] for row in rows])
        for name, value in first.items()
    }


def encode(columns: Columns) -> dict[str, dict[str, Any]]:
    """For JSON: each column as its type, as page.js knows it, its bytes, and for text the words that they number."""
    return {name: _encode(column) for name, column in columns.items()}


def _encode(column: Column) -> dict[str, Any]:
    if isinstance(column, np.ndarray):
        return encode_array(column)
    words, codes = np.unique(np.array(column, dtype=object), return_inverse=True)
    return {"words": words.tolist(), **encode_array(codes)}


def encode_array(values: NDArray[Any]) -> dict[str, str]:
    """Whole numbers in as few bytes as hold them, all others as float32."""
    if values.dtype.kind in "biu":
        for kind in ("u1", "u2", "i4"):
            limits = np.iinfo(kind)
            if values.size == 0 or (limits.min <= values.min() and values.max() <= limits.max):
                break
    else:
        kind = "f4"
    return {"type": kind, "bytes": b64encode(values.astype(f"<{kind}").tobytes()).decode()}
