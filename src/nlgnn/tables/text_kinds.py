"""Columns of text as categories, lists or words."""

from __future__ import annotations

import polars as pl

from nlgnn.graph.audit import listed
from nlgnn.tables.column_kinds import WORD, Categories, LeftOut, Lists, Texts, category_keys, items_of
from nlgnn.tables.values import shown

MOST_CATEGORIES = 100  # with their own slot
MANY_VALUES = 1000  # from this number on, text is split into words
MOST_WORDS = 500  # of a vocabulary; more words are hashed
WORDS_RECUR = 3  # times that a word occurs on average in different names that are not a key
SAMPLED_TEXTS = 20_000
ITEMS_RECUR = {";": 2, "|": 2, ",": 3}  # times that an item occurs on average in different lists
LONG_ITEM, LONG_ITEM_WORDS = 30, 3  # mean number of characters and words


def distinct_counts(text: pl.Series) -> pl.DataFrame:
    """Return the distinct cells, `text`, and how often each occurs, `count`."""
    return text.drop_nulls().alias("text").value_counts(name="count")


def weighted_mean(values: pl.Series, count: pl.Series) -> float:
    """Return the mean over all cells of a figure of distinct cells."""
    return float((values * count).sum()) / float(count.sum())


def list_separator(cells: pl.Series) -> str | None:
    """Return the separator of lists if the same short items recur in different cells; None if there is none."""
    for separator, recur in ITEMS_RECUR.items():
        lists = cells.filter(cells.str.contains(separator, literal=True))
        if len(lists) < 2 or 10 * len(lists) < len(cells):
            continue
        items = items_of(cells, separator).get_column("item")
        distinct = category_keys(items.unique()).n_unique()
        if items.is_empty():
            continue
        lengths = float(items.str.len_chars().mean()), float(items.str.count_matches(WORD).mean())  # type: ignore[arg-type]
        short = lengths[0] < LONG_ITEM and lengths[1] < LONG_ITEM_WORDS
        if short and 1 < distinct <= MANY_VALUES and len(items) >= recur * distinct and distinct < len(cells):
            return separator
    return None


def document_frequencies(cells: pl.Series) -> pl.DataFrame | None:
    """Return each word, and in how many distinct cells it occurs; None if there are more than `MOST_WORDS` words."""
    every = max(1, len(cells) // SAMPLED_TEXTS)
    # Hashes choose the sample, because the order of rows must not matter.
    for part in (cells.filter(cells.hash() % every == 0), cells) if every > 1 else (cells,):
        lists = part.str.to_lowercase().str.extract_all(WORD).list.unique()
        found = lists.explode().drop_nulls().alias("word").value_counts(name="cells")
        if found.height > MOST_WORDS:
            return None
    return found


def words_recur(cells: pl.Series) -> bool:
    """Return whether cells are made of few words, each of which occurs in several cells."""
    found = document_frequencies(cells)
    return found is not None and found.height > 0 and int(found["cells"].sum()) >= WORDS_RECUR * found.height


def fit_texts(text: pl.Series, counts: pl.DataFrame) -> Texts:
    """Return a column of text with its vocabulary if it has few words."""
    cells = counts.get_column("text")
    words = weighted_mean(cells.str.count_matches(WORD), counts.get_column("count"))
    filled = max(words * (len(text) - text.null_count()) / len(text), 1e-6)
    found = document_frequencies(cells)
    recurring = None if found is None else found.filter(pl.col("cells") > 1)
    if recurring is None or recurring.is_empty():
        return Texts(name=text.name, missing=text.null_count(), filled=filled, remarks=("words hashed",))
    vocabulary = tuple(recurring.get_column("word").sort())
    remark = f"a vocabulary of {len(vocabulary)} words"
    return Texts(name=text.name, missing=text.null_count(), filled=filled, vocabulary=vocabulary, remarks=(remark,))


def fit_categories(text: pl.Series, counts: pl.DataFrame) -> Categories | LeftOut:
    """Return the most frequent categories, whose spellings are merged."""
    ranked = merged_spellings(counts)
    if ranked.height == 1 and not text.has_nulls():
        return LeftOut(name=text.name, missing=0, reason="constant", remarks=merge_remarks(ranked))
    remarks = merge_remarks(ranked)
    if ranked.height > MOST_CATEGORIES:
        remarks += (f"{ranked.height} categories: all but the {MOST_CATEGORIES} most frequent are one",)
    names = tuple(ranked.get_column("name").head(MOST_CATEGORIES))
    return Categories(name=text.name, missing=text.null_count(), categories=names, remarks=remarks)


def merged_spellings(counts: pl.DataFrame) -> pl.DataFrame:
    """Return categories with their spellings, the most frequent category and spelling first."""
    ordered = counts.sort("count", "text", descending=[True, False])
    groups = ordered.with_columns(key=category_keys(ordered.get_column("text"))).group_by("key", maintain_order=True)
    ranked = groups.agg(name=pl.col("text").first(), spellings=pl.col("text"), count=pl.col("count").sum())
    return ranked.sort("count", "name", descending=[True, False])


def merge_remarks(ranked: pl.DataFrame) -> tuple[str, ...]:
    """Return the remark about spellings that were merged, if there are any."""
    several = ranked.filter(pl.col("spellings").list.len() > 1).get_column("spellings").to_list()
    if not several:
        return ()
    return (f"merged {listed([' and '.join(map(shown, spellings[:3])) for spellings in several[:9]])}",)


def fit_lists(values: pl.Series, separator: str) -> Lists | LeftOut:
    """Return the most frequent items of lists."""
    missing = values.null_count()
    found = items_of(values, separator)
    if found.is_empty():
        return LeftOut(name=values.name, missing=len(values), reason="empty")
    rows_with_items = found.get_column("row").n_unique()
    ranked = merged_spellings(found.get_column("item").alias("text").value_counts(name="count"))
    if ranked.height == 1 and rows_with_items == len(values):
        return LeftOut(name=values.name, missing=0, reason="constant")
    remarks: tuple[str, ...] = () if values.dtype.is_nested() else (f"lists separated by {separator!r}",)
    if ranked.height > MOST_CATEGORIES:
        remarks += (f"{ranked.height} items: all but the {MOST_CATEGORIES} most frequent are one",)
    return Lists(
        name=values.name,
        missing=max(missing, len(values) - rows_with_items),
        filled=len(found) / len(values),
        separator=separator,
        items=tuple(ranked.get_column("name").head(MOST_CATEGORIES)),
        remarks=(*remarks, *merge_remarks(ranked)),
    )
