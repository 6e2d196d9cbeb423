"""Labels and splits from columns, and columns that reveal the label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.errors import DataError, nearest
from nlgnn.graph.audit import IF_RARE, are_rare, listed
from nlgnn.graph.splits import Split
from nlgnn.tables.column_kinds import FeatureColumn, Numbers, category_keys
from nlgnn.tables.date_format import find_dates
from nlgnn.tables.number_format import NO_VALUE, find_numbers
from nlgnn.tables.roles import PARTS
from nlgnn.tables.values import (
    Table,
    as_text,
    counted,
    other_type,
    parsed_numbers,
    shown,
    simplified,
)

WHOLE = r"^([+-]?\d+)\.0*$"
UNKNOWN = tuple(mark for mark in NO_VALUE if not mark.isalpha())  # "none" and "missing" may be classes
# More different numbers than the first, with fewer labelled nodes each than the second, are refused as classes. More
# classes than the first, with fewer labelled nodes each than the third, are warned of.
MANY_CLASSES, FEWEST_PER_CLASS, FEW_PER_CLASS = 20, 5, 20
MOST_NUMBERED = 200  # numbers that can be classes
# A column leaks if it predicts this share of labels, and leaves at most this share of the errors of the majority class.
LEAK_ACCURACY, LEAK_ERROR_RATIO = 0.98, 0.2
LEAK_MIN_LABELS = 20  # with fewer labels, such columns occur by chance
LEAK_MAX_ROWS = 20_000
BINS = (
    "Regression is not supported. Divide the values into a few classes first, such as pandas.qcut(values, 4), or name "
    "another column. If they are names of classes, write them as text, such as c17."
)


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of nodes.

    Args:
        y: The class numbers, -1 where the label is unknown.
        class_names: The name of each class.
        notes: Sentences about what was found.
        warnings: Sentences about what may be wrong.
    """

    y: NDArray[np.int64]
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_labels(table: Table, column: str | None, class_names: Sequence[str] | None = None) -> Labels:
    """Read the labels of a table.

    Blank cells, NA, N/A, NaN, null and marks such as "?" are unknown labels. Names that differ only in case and blanks
    are one class. Classes are sorted by name, or by number if all are numbers. Of two classes the rarer one comes
    second.

    Args:
        table: The table of nodes.
        column: The column of labels; None if no label is known.
        class_names: The classes of a trained model. Other labels are then an error, and no label needs to be known.

    Returns:
        The labels.

    Raises:
        DataError: If the column does not hold classes.
    """
    if column is None:
        unknown = np.full(table.num_rows + table.added_rows, -1)
        return Labels(unknown, tuple(class_names or ()), ("No label column was named: no label is known.",))
    values = simplified(table.column(column))
    if values.dtype.is_nested() or values.dtype == pl.Binary:
        raise other_type(table, values, "labels")
    text, notes = as_text(values), []
    text = text.set(text.str.to_lowercase().is_in(UNKNOWN).fill_null(False), None)
    if not parsed_numbers(text.drop_nulls()).has_nulls():
        text = text.str.replace(WHOLE, "$1")  # 2.0 is class 2: integers with missing values are often stored so
    distinct = text.n_unique() - text.has_nulls()
    text, merged = one_spelling(text, class_names)
    if class_names is None:
        names = in_order(text.drop_nulls().unique().to_list())
        check_classes(table, column, names, len(text) - text.null_count())
        if len(names) == 2 and (text == names[0]).sum() < (text == names[1]).sum():
            names.reverse()  # the second of two classes is the positive one, which is usually the rarer one
    else:
        names = list(class_names)
        unseen = (text.is_not_null() & ~text.is_in(names)).arg_true()
        if len(unseen):
            label = text[int(unseen[0])]
            how = f"{nearest(label, names)} Leave the cell blank if the class is unknown."
            raise table.fault(unseen, column, f"is {shown(label)}, a class that the model does not know", how)
    numbers = {name: number for number, name in enumerate(names)}
    y = text.replace_strict(numbers, default=-1, return_dtype=pl.Int64).to_numpy()
    if values.dtype == pl.String:
        as_written = values.filter(text.is_not_null()).n_unique()
        if as_written > distinct:
            notes.append(f"{table.source}: labels that differ only in blanks around them, or in .0, were read as one.")
        if spelt_out := int((text.is_null() & (values.str.strip_chars() != "")).sum()):
            found = counted(spelt_out, "cell")
            notes.append(f"{table.source}: labels such as NA or null were read as unknown ({found}).")
    known = int((y >= 0).sum())
    notes.insert(0, f"{column!r} holds the labels: {len(names)} classes; {known} of {len(y)} nodes have one.")
    warnings = []
    if merged:
        warnings.append(f"Labels that differ only in case and blanks are one class: {listed(merged)}.")
    if class_names is None:
        sizes = np.bincount(y[y >= 0])
        rare, single = ([names[i] for i in np.flatnonzero(chosen)] for chosen in (are_rare(sizes), sizes == 1))
        if rare:
            notes.append(f"Rare compared with {shown(names[sizes.argmax()])}: {listed(map(shown, rare))}. {IF_RARE}")
        if single:
            found = listed(map(shown, single))
            warnings.append(f"Classes of a single node, which cannot be both learned and tested: {found}.")
        if len(names) > MANY_CLASSES and known < FEW_PER_CLASS * len(names):
            warnings.append(
                f"{column!r} has {len(names)} classes, with {known / len(names):.0f} labelled nodes each on average: "
                "is it a column of classes?"
            )
    return Labels(y, tuple(names), tuple(notes), tuple(warnings))


def one_spelling(text: pl.Series, class_names: Sequence[str] | None) -> tuple[pl.Series, list[str]]:
    """Return labels in one spelling per class, and the spellings that were merged.

    The spelling of a class is that of a trained model, or the most frequent one.
    """
    counts = text.drop_nulls().alias("text").value_counts(name="count").sort("count", "text", descending=[True, False])
    known = pl.DataFrame({"text": list(class_names or ())}, schema={"text": pl.String})
    spelt = pl.concat([known, counts.select("text")]).unique(maintain_order=True)
    groups = spelt.with_columns(key=category_keys(spelt["text"])).group_by("key", maintain_order=True).all()
    several = groups.filter(pl.col("text").list.len() > 1)["text"].to_list()
    if class_names is not None:  # classes of the model stay apart, and so do further spellings if there are several
        several = [found for found in several if len(set(found) & set(class_names)) == 1]
    others = {other: first for first, *rest in several for other in rest}
    merged = [" and ".join(map(shown, found[:3])) for found in several[:9]]
    return (text.replace(others), merged) if others else (text, [])


def check_classes(table: Table, column: str, names: list[str], labelled: int) -> None:
    """Raise an error if the values of a column cannot be classes."""
    where = f"{table.source}, column {column!r}"
    if not names:
        raise DataError(f"{where}: no row has a label.", "Label some of the nodes and leave the others blank.")
    if len(names) == 1:
        raise DataError(f"{where}: all labels are {shown(names[0])}.", "Give at least two classes.")
    many = f"{where} holds {len(names)} different"
    if len(names) > MANY_CLASSES:
        cells = pl.Series(names)
        numbers = find_numbers(cells).numbers
        fractions = " with fractions" * bool((numbers != numbers.floor()).any())
        few = len(names) < labelled < FEWEST_PER_CLASS * len(names) or MOST_NUMBERED < len(names) < labelled
        if not numbers.has_nulls() and (fractions or few):
            raise DataError(f"{many} numbers{fractions}, such as {names[0]}: these are no classes.", BINS)
        if not find_dates(cells).days.has_nulls():
            raise DataError(f"{many} dates, such as {names[0]}: these are no classes.", BINS)
    if len(names) == labelled and labelled > 2:
        raise DataError(f"{where}: every label is different.", "Name the column of classes, not that of ids.")


def in_order(names: list[str]) -> list[str]:
    """Return class names sorted by number if all are numbers, and by name otherwise."""
    numbers = parsed_numbers(pl.Series(names, dtype=pl.String))
    if numbers.has_nulls():
        return sorted(names)
    return [name for _, name in sorted(zip(numbers.to_list(), names, strict=True))]


def read_splits(table: Table, columns: Sequence[str], y: NDArray[np.int64]) -> tuple[tuple[Split, ...], list[str]]:
    """Read one split per column, and notes. Blank cells and nodes of unknown label are in no part."""
    splits, notes = [], []
    for index, column in enumerate(columns):
        values = table.column(column)
        text = as_text(values).str.to_lowercase() if not values.dtype.is_nested() else values.cast(pl.String)
        parts = text.replace_strict(PARTS, default=None, return_dtype=pl.String)
        wrong = (text.is_not_null() & parts.is_null()).arg_true()
        if len(wrong):
            what = f"is {shown(values[int(wrong[0])])}, not train, val or test"
            raise table.fault(wrong, column, what, "Leave the cell blank for a node in none of them.")
        masks = {part: parts.eq(part).fill_null(False).to_numpy() for part in ("train", "val", "test")}
        unlabelled = int(((y < 0) & parts.is_not_null().to_numpy()).sum())
        if unlabelled:
            found = counted(unlabelled, "node")
            notes.append(f"{table.source}, column {column!r}: nodes without a label are in no part ({found}).")
        for part, mask in masks.items():
            mask = masks[part] = mask & (y >= 0)
            if not mask.any():
                raise DataError(
                    f"{table.source}, column {column!r}: no node with a label is in {part!r}.",
                    "Give each of train, val and test at least one, or rename the column to draw splits at random.",
                )
        splits.append(Split(**masks, protocol="column", index=index))
    return tuple(splits), notes


def labels_in_use(y: NDArray[np.int64], splits: Iterable[Split]) -> NDArray[np.int64]:
    """Return the labels of nodes that a split trains or validates on, and -1 for others; without splits, all labels.

    Example:
        >>> labels_in_use(np.array([0, 1, 1]), [Split([1, 0, 0], [0, 1, 0], [0, 0, 1])]).tolist()
        [0, 1, -1]
    """
    used = [split.train | split.val for split in splits]
    return np.where(np.any(used, axis=0), y, -1) if used else y


def likely_leaks(table: Table, columns: tuple[FeatureColumn, ...], y: NDArray[np.int64]) -> dict[str, float]:
    """Return the columns that predict the labels of nearly all nodes, and the share of labels that each predicts.

    A value predicts the most frequent label of the other nodes with this value (the majority class if there are none).
    Numbers predict labels by as many intervals as there are classes. A text is one value.
    """
    rows = np.flatnonzero(y >= 0)
    if len(rows) < LEAK_MIN_LABELS:
        return {}
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), LEAK_MAX_ROWS)).astype(np.int64)]
    labels = y[rows]
    majority_error = 1 - np.bincount(labels).max() / len(labels)
    found = {}
    for column in columns:
        values = table.column(column.name)
        if values.dtype.is_nested():
            continue
        share = share_predicted(values, column, table, rows, labels)
        if share >= LEAK_ACCURACY and 1 - share <= LEAK_ERROR_RATIO * majority_error:
            found[column.name] = share
    return found


def share_predicted(
    values: pl.Series, column: FeatureColumn, table: Table, rows: NDArray[np.int64], labels: NDArray[np.int64]
) -> float:
    """Return the share of labels that a column predicts."""
    if isinstance(column, Numbers):
        numbers = column.numbers(values, table)[rows]
        _, codes = np.unique(numbers, return_inverse=True)
        return (predicted_by_intervals if codes.max() >= len(codes) / 4 else predicted_by_values)(numbers, labels)
    codes = category_keys(as_text(values.gather(rows))).rank("dense").fill_null(0).to_numpy()
    return predicted_by_values(codes, labels)


def predicted_by_values(values: NDArray[Any], labels: NDArray[np.int64]) -> float:
    """Return the share of nodes whose label is the most frequent among the other nodes of the same value."""
    num_classes = int(labels.max()) + 1
    _, codes = np.unique(values, return_inverse=True)
    counts = np.bincount(codes * num_classes + labels, minlength=(int(codes.max()) + 1) * num_classes)
    counts = counts.reshape(-1, num_classes)
    others = counts[codes]
    others[np.arange(len(labels)), labels] -= 1
    guess = np.where(others.sum(axis=1) > 0, others.argmax(axis=1), np.bincount(labels).argmax())
    return float((guess == labels).mean())


def predicted_by_intervals(numbers: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Return the share of nodes whose label is that of their interval, with at most one interval per class."""
    known = np.flatnonzero(~np.isnan(numbers))
    classes = len(np.unique(labels))
    in_order = labels[known[np.argsort(numbers[known])]]
    changes = int((in_order[1:] != in_order[:-1]).sum())
    # A node outside the interval of its class makes at most two changes. With more changes a tree cannot help.
    if classes < 2 or changes > classes - 1 + 2 * (1 - LEAK_ACCURACY) * len(labels):
        return 0.0
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_leaf_nodes=classes, random_state=0).fit(numbers[known, None], labels[known])
    return float((tree.predict(numbers[known, None]) == labels[known]).sum() / len(labels))
