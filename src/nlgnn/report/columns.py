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


class Words:
    """The lists of words that the text of a page numbers; those of nodes, which several tables name, are there once."""

    def __init__(self) -> None:
        self.lists: list[NDArray[Any]] = []  # each sorted

    def encode(self, columns: Columns) -> dict[str, dict[str, Any]]:
        """For JSON: each column as its type, as page.js knows it, its bytes, and for text the list that they number."""
        return {name: self._encode(column) for name, column in columns.items()}

    def _encode(self, column: Column) -> dict[str, Any]:
        if isinstance(column, np.ndarray):
            return encode_array(column)
        texts = np.array(column, dtype=object)
        for number, words in enumerate(self.lists):
            codes = np.searchsorted(words, texts)
            if len(words) and (words[np.minimum(codes, len(words) - 1)] == texts).all():
                return {"words": number, **encode_array(codes)}
        words, codes = np.unique(texts, return_inverse=True)
        self.lists.append(words)
        return {"words": len(self.lists) - 1, **encode_array(codes)}


def encode_array(values: NDArray[Any]) -> dict[str, str]:
    """Whole numbers in as few bytes as hold them, all others as float32."""
    kind = "f4"
    if values.dtype.kind in "biu":
        least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
        holding = [kind for kind in ("u1", "u2", "i4") if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max]
        kind = holding[0] if holding else "f8"
    return {"type": kind, "bytes": b64encode(values.astype(f"<{kind}").tobytes()).decode()}
