"""From a column of labels to class numbers and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.datasets.tables.table import Table
from nlgnn.datasets.tables.values import as_text, counted, other_type, parsed_numbers, shown, simplified
from nlgnn.errors import DataError, nearest
from nlgnn.graph.audit import IF_RARE, are_rare

WHOLE = r"^([+-]?\d+)\.0*$"
# So many numbers, with so few labelled nodes each on average, are refused as classes; what may be one is warned of.
MANY_CLASSES, FEWEST_A_CLASS, FEW_A_CLASS = 20, 3, 20


@dataclass(frozen=True, eq=False)
class Labels:
    """Class numbers, -1 where the label is unknown, the name of each class, and what is to be said."""

    y: NDArray[np.int64]
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def no_labels(num_nodes: int, class_names: Sequence[str] | None) -> Labels:
    return Labels(np.full(num_nodes, -1), tuple(class_names or ()), ("No label column was named: no label is known.",))


def read_labels(table: Table, column: str, class_names: Sequence[str] | None = None) -> Labels:
    """The labels of a table.

    Blank cells and NA, N/A, NaN and null are unknown labels. Blanks around a name do not count. Classes are in the
    order of their names, or of their numbers where all are numbers.

    Args:
        class_names: the classes of a trained model: other labels are then an error, and one class or none is enough.
    """
    values = simplified(table.column(column))
    if values.dtype.is_nested() or values.dtype == pl.Binary:
        raise other_type(table, values, "labels")
    text, notes = as_text(values), []
    if not parsed_numbers(text.drop_nulls()).has_nulls():
        text = text.str.replace(WHOLE, "$1")  # 2.0 is class 2: missing values make such numbers
    if class_names is None:
        names = in_order(text.drop_nulls().unique().to_list())
        check_classes(table, column, names, len(text) - text.null_count())
    else:
        names = list(class_names)
        unseen = (text.is_not_null() & ~text.is_in(names)).arg_true()
        if len(unseen):
            row = int(unseen[0])
            raise DataError(
                f"{table.place(row, column)} is {shown(text[row])}, a class that the model does not know "
                f"({counted(len(unseen), 'cell')}).",
                f"{nearest(text[row], names)} Leave the cell blank where the class is unknown.",
            )
    numbers = {name: number for number, name in enumerate(names)}
    y = text.replace_strict(numbers, default=-1, return_dtype=pl.Int64).to_numpy()
    if values.dtype == pl.String:
        as_written = values.filter(text.is_not_null()).n_unique()
        if as_written > text.n_unique() - text.has_nulls():
            notes.append(f"{table.source}: labels that differ only in blanks around them, or in .0, were taken as one.")
        spelt_out = int((text.is_null() & (values.str.strip_chars() != "")).sum())
        if spelt_out:
            notes.append(
                f"{table.source}: labels such as NA or null were taken as unknown ({counted(spelt_out, 'cell')})."
            )
    sizes = np.bincount(y[y >= 0], minlength=len(names))
    known = int((y >= 0).sum())
    notes.insert(0, f"{column!r} holds the labels: {len(names)} classes; {known} of {len(y)} nodes have one.")
    single = [name for name, size in zip(names, sizes, strict=True) if size == 1]
    rare = [name for name, is_rare in zip(names, are_rare(sizes), strict=True) if is_rare]
    if rare and class_names is None:
        notes.append(f"Rare beside {shown(names[sizes.argmax()])}: {_listed(rare)}. {IF_RARE}")
    warnings = []
    if single and class_names is None:
        warnings.append(f"Classes of a single node, which cannot be both learned and tested: {_listed(single)}.")
    if class_names is None and len(names) > MANY_CLASSES and known < FEW_A_CLASS * len(names):
        warnings.append(
            f"{column!r} has {len(names)} classes, with {known / len(names):.0f} labelled nodes each on average: is it "
            "a column of classes?"
        )
    return Labels(y, tuple(names), tuple(notes), tuple(warnings))


def _listed(names: list[str]) -> str:
    return ", ".join(map(shown, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def check_classes(table: Table, column: str, names: list[str], labelled: int) -> None:
    where = f"{table.source}, column {column!r}"
    if not names:
        raise DataError(f"{where}: no row has a label.", "Give labels to some of the nodes; the others stay blank.")
    if len(names) == 1:
        raise DataError(f"{where}: all labels are {shown(names[0])}.", "A classifier needs two classes at least.")
    numbers = parsed_numbers(pl.Series(names))
    many_numbers = len(names) > MANY_CLASSES and not numbers.has_nulls()
    fractions = " with fractions" * bool((numbers != numbers.floor()).any())
    if many_numbers and (fractions or len(names) < labelled < FEWEST_A_CLASS * len(names)):
        raise DataError(
            f"{where} holds {len(names)} different numbers{fractions}, such as {names[0]}: these are no classes.",
            "Name a column of classes, or cut the numbers into classes first.",
        )
    if len(names) == labelled and labelled > 2:
        raise DataError(f"{where}: every label is different.", "Name the column of classes, not that of ids.")


def in_order(names: list[str]) -> list[str]:
    numbers = parsed_numbers(pl.Series(names, dtype=pl.String))
    if numbers.has_nulls():
        return sorted(names)
    return [name for _, name in sorted(zip(numbers.to_list(), names, strict=True))]
