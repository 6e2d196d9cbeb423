"""FeatureEncoder: what each kind of column becomes, and that it stays so."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer
from table_samples import dense

from each_of import each_of
from nlgnn.errors import DataError
from nlgnn.tables import FeatureEncoder, read_graph

WORDS = [f"some words about the thing of number {i}" for i in range(30)]


def fitted(values: object, **options: object) -> FeatureEncoder:
    return FeatureEncoder.fit(pl.DataFrame({"c": values}), **options)


def encoded(encoder: FeatureEncoder, values: object) -> list[list[float]]:
    return dense(encoder.transform(pl.DataFrame({"c": values}))).astype(float).round(4).tolist()


def described(encoder: FeatureEncoder) -> tuple[object, ...]:
    """Kind, slots and missing values of the first column."""
    return tuple(encoder.describe()[0][name] for name in ("kind", "slots", "missing"))


def as_csv_cells(values: list[object]) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


def test_numbers() -> None:
    for values in ([1.0, 2.0, 3.0], [1, 2, 3], ["1", " 2 ", "3.0"], [Decimal(1), Decimal(2), Decimal(3)]):
        encoder = fitted(values)
        assert described(encoder) == ("number", 1, 0)
        assert encoded(encoder, values) == [[-1.2247], [0], [1.2247]]
        assert encoded(encoder, [None, 5, 2]) == [[0], [3.6742], [0]]  # missing as at the mean: none was at fit
    assert encoded(fitted([1, 5, 2], standardise=False), [1, 5, 2]) == [[1], [5], [2]]


def test_missing_numbers_are_the_mean_and_marked() -> None:
    for values in ([1.0, None, 3.0], [1.0, float("nan"), 3.0], ["1", "NA", "3"], ["1", "", "3"]):
        encoder = fitted(values)
        assert encoder.describe()[0]["missing"] == 1
        assert encoded(encoder, values) == [[-1, 0], [0, 1], [1, 0]]
        assert encoded(encoder, [1, 3, 2]) == [[-1, 0], [1, 0], [0, 0]]
    assert encoded(fitted([1, None, 5], standardise=False), [1, None, 5]) == [[1, 0], [3, 1], [5, 0]]


def test_huge_and_tiny_numbers() -> None:
    for values in ([1e37, -1e37, 0], [1e-200, 2e-200, 3e-200], [1e12, 1e12 + 1, 1e12 + 2]):
        x = encoded(fitted(values), values)
        np.testing.assert_allclose(np.mean(x), 0, atol=1e-3)
        np.testing.assert_allclose(np.std(x), 1, rtol=1e-3)
    assert np.isfinite(encoded(fitted([0.0, 1e-30]), [1e30, -1e30])).all()  # far from anything at fit


def test_truths() -> None:
    for values in ([True, False, True], ["true", "FALSE", "True"], ["yes", "no", "yes"], ["T", "f", "t"]):
        encoder = fitted(values)
        assert described(encoder) == ("boolean", 1, 0)
        assert encoded(encoder, values) == [[1], [0], [1]]
    encoder = fitted([True, None, False])
    assert encoded(encoder, ["yes", "", "0"]) == [[1, 0], [0, 1], [0, 0]]
    with pytest.raises(DataError, match=r"the table, row 2, column 'c' is 'maybe', not true or false \(1 such cell\)"):
        encoder.transform(pl.DataFrame({"c": ["yes", "maybe"]}))


def test_categories() -> None:
    encoder = fitted(["b", "a", None, "b", " a ", "b"])
    assert encoder.columns[0].categories == ("b", "a")  # the most frequent first
    assert described(encoder) == ("category", 4, 1)
    assert encoded(encoder, ["a", "b", "zebra", None]) == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    without = fitted(["b", "a", "b", "a"])
    assert encoded(without, ["a", None, "zebra"]) == [[1, 0, 0], [0, 0, 1], [0, 0, 1]]  # ties by name


def test_many_categories_share_a_slot() -> None:
    values = [f"v{i:03}" for i in range(300)] * 2 + ["v299"]
    encoder = fitted(values)
    (column,) = encoder.columns
    assert column.categories == ("v299", *(f"v{i:03}" for i in range(99)))
    assert isinstance(encoder.transform(pl.DataFrame({"c": values})), sparse.csr_array)
    assert encoded(encoder, ["v200"])[0].index(1) == 100


@pytest.mark.parametrize("distinct", [10_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_very_many_categories_are_hashed(distinct: int) -> None:
    values = pl.select(pl.format("user-{}", pl.int_range(distinct * 3 // 2) % distinct)).to_series()
    encoder = fitted(values)
    assert described(encoder) == ("text", 1024, 0)
    found = read_graph(pl.DataFrame({"key": range(1200), "c": [f"u {i % 1100}" for i in range(1200)]}))
    assert [row["remark"] for row in found.columns] == ["", "words hashed"]


def test_text_is_hashed_as_scikit_learn_does() -> None:
    texts = [f"{text} {' '.join(f'w{i}{j}' for j in range(20))}" for i, text in enumerate(WORDS)]
    encoder = fitted([*texts, None])
    assert described(encoder) == ("text", 1024, 1)
    x = encoder.transform(pl.DataFrame({"c": [*texts, None]}))
    expected = HashingVectorizer(n_features=1024, token_pattern=r"(?u)\b\w+\b").transform(texts)
    assert isinstance(x, sparse.csr_array)
    np.testing.assert_allclose(x[:30].toarray(), expected.toarray(), atol=1e-6)
    assert x[[30]].nnz == 0


def test_texts_of_few_words_have_a_vocabulary() -> None:
    encoder = fitted([*WORDS, None])
    (column,) = encoder.columns
    assert column.vocabulary == ("about", "number", "of", "some", "the", "thing", "words")  # no word of a single text
    assert encoded(encoder, ["The THING, the other", "unseen", None]) == [
        [0, 0, 0, 0, 0.8944, 0.4472, 0],
        [0] * 7,
        [0] * 7,
    ]


def test_dates() -> None:
    days = [date(2024, 1, 1), date(2024, 3, 5), date(2024, 3, 6), None]
    for values in (days, as_csv_cells(days), [day and datetime(day.year, day.month, day.day) for day in days]):
        encoder = fitted(values)
        assert described(encoder) == ("date", 21, 1)
        x = np.array(encoded(encoder, values))
        assert x[:, 1].tolist() == [0, 0, 0, 1]  # missing
        assert x[:, 2:14].argmax(axis=1).tolist()[:3] == [0, 2, 2]  # months
        assert x[:, 14:].argmax(axis=1).tolist()[:3] == [0, 1, 2]  # Monday, Tuesday, Wednesday
        assert x[3, 2:].tolist() == [0] * 19
    assert fitted([date(2024, 1, 1), date(2024, 1, 8)]).describe()[0]["slots"] == 1  # neither month nor weekday varies
    with pytest.raises(DataError, match="row 1, column 'c' is 'soon', not a date"):
        fitted(days).transform(pl.DataFrame({"c": ["soon"]}))


def test_every_feature_has_a_name() -> None:
    """The name says the value of a category and the part of a date, in the order of the features."""
    table = pl.DataFrame(
        {
            "size": [1.0, None, 3.0],
            "kind": ["b", "a", "b"],
            "day": [date(2024, 1, 1), date(2024, 3, 5), None],
            "place": [[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]],
        }
    )
    encoder = FeatureEncoder.fit(table)
    names, x = encoder.slot_names, np.asarray(encoder.transform(table))
    assert len(names) == len(set(names)) == encoder.num_slots == x.shape[1]
    for name, values in {
        "size is missing": [0, 1, 0],
        "kind = a": [0, 1, 0],
        "kind = b": [1, 0, 1],
        "kind: other": [0, 0, 0],
        "day is missing": [0, 0, 1],
        "day in March": [0, 1, 0],
        "day on a Tuesday": [0, 1, 0],
    }.items():
        assert x[:, names.index(name)].tolist() == values, name
    assert x[:, names.index("place[1]")].argmax() == 2


def test_text_has_a_name_per_feature() -> None:
    few, many = (
        fitted(WORDS),
        fitted([f"{word} x{number} y{number * 7} z{number * 11}" for number, word in enumerate(WORDS * 9)]),
    )
    assert len(few.slot_names) == few.num_slots == 7
    assert few.slot_names[-1] == "c: words"
    assert len(many.slot_names) == many.num_slots == 1024


@pytest.mark.parametrize(
    "cells",
    [
        ["2024-01-01T00:00:00", "2024-01-02 12:00:00", "2024-01-03T00:00:00Z"],
        ["2024-01-01 00:00", "2024-01-02T12:00", "2024-01-03"],
        ["2024/01/01", "2024-01-02T12:00:00.000", "3.1.2024"],
    ],
)
def test_dates_as_text(cells: list[str]) -> None:
    x = encoded(fitted(cells), cells)
    np.testing.assert_allclose(
        [row[0] for row in x], np.array([-1, 0.2, 0.8]) / np.std([0, 1.5, 2]) * 1.1667 / 1, atol=0.5
    )
    assert [row[0] for row in x] == sorted(row[0] for row in x)


def test_times_and_durations_are_numbers() -> None:
    for values in ([time(1), time(2), time(3)], [timedelta(1), timedelta(2), timedelta(3)]):
        assert encoded(fitted(values), values) == [[-1.2247], [0], [1.2247]]


def test_lists_of_numbers() -> None:
    values = [[1.0, 7.0], [2.0, 7.0], None, [3.0, 7.0]]
    for kind in (pl.List(pl.Float64), pl.List(pl.Float32), pl.Array(pl.Float32, 2)):
        series = pl.Series(values, dtype=kind)
        encoder = fitted(series)
        assert described(encoder) == ("numbers", 2, 1)
        assert encoded(encoder, series) == [[-1.2247, 0], [0, 0], [0, 0], [1.2247, 0]]
    assert encoded(fitted(values, standardise=False), values) == [[1, 7], [2, 7], [2, 7], [3, 7]]
    with pytest.raises(DataError, match="row 2, column 'c' has 1 numbers instead of 2"):
        encoder.transform(pl.DataFrame({"c": [[1, 2], [1]]}))
    with pytest.raises(DataError, match="row 1, column 'c' holds a value that is missing or no finite"):
        fitted([[1.0, None], [1.0, 2.0]])
    with pytest.raises(DataError, match=r"column 'c' holds values of type String, not lists of 2 numbers"):
        encoder.transform(pl.DataFrame({"c": ["1"]}))


@each_of(
    ("values", "reason"),
    [
        ([7] * 30, "one value only"),
        (["x"] * 30, "one value only"),
        ([True] * 30, "one value only"),
        ([date(2024, 1, 1)] * 30, "one value only"),
        ([None] * 30, "no values"),
        ([""] * 30, "no values"),
        ([float("nan")] * 30, "no values"),
        ([f"k{i}" for i in range(30)], "all values different"),
        (range(100, 130), "all values different"),
        ([str(i) for i in range(30)], "all values different"),
        ([{"a": 1}] * 30, "neither numbers"),
        ([["a"]] * 30, "one value only"),
        ([[["a"]]] * 30, "neither numbers"),
        ([b"a"] * 30, "neither numbers"),
    ],
)
def test_columns_that_are_left_out(values: object, reason: str) -> None:
    encoder = FeatureEncoder.fit(pl.DataFrame({"c": values, "x": [0.5, 1.5] * 15}))
    assert [column.name for column in encoder.columns] == ["x"]
    assert encoder.describe()[1]["remark"].startswith(f"left out: {reason}")
    assert encoder.transform(pl.DataFrame({"x": [0.5, 1.5]})).shape == (2, 1)  # nobody asks for it


@each_of(
    "values",
    [
        [i * 0.5 for i in range(30)],  # measurements may be all different
        [i * i for i in range(30)],
        [date(2024, 1, i + 1) for i in range(30)],
        WORDS,
        [7] * 29 + [None],  # that a value is missing may tell something
    ],
)
def test_columns_that_are_not_left_out(values: list[object]) -> None:
    assert fitted(values).left_out == ()
    assert fitted(as_csv_cells(values)).left_out == ()


def test_keys_by_name() -> None:
    values = [i * i for i in range(30)]
    for name, is_key in {"user_id": True, "Id": True, "paid": False, "grid": False, "index": True}.items():
        assert bool(FeatureEncoder.fit(pl.DataFrame({name: values})).left_out) == is_key


def test_as_text_and_as_types_are_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "number": rng.normal(size=50),
            "whole": rng.integers(5, size=50),
            "truth": rng.integers(2, size=50).astype(bool),
            "category": rng.choice(["a", "b", "c d"], 50),
            "date": [date(2024, 1 + i % 12, 1 + i % 28) for i in range(50)],
            "text": [f"{WORDS[i % 30]} {i}" for i in range(50)],
        }
    ).with_columns(pl.when(pl.int_range(50) % 7 > 0).then(pl.all()))  # every seventh is missing
    frame = frame.with_columns(pl.lit("x").alias("constant"))  # without it the line would be blank
    frame.write_csv(tmp_path / "n.csv")
    frame.write_ndjson(tmp_path / "n.jsonl")
    frame.write_parquet(tmp_path / "n.parquet")
    encoder = FeatureEncoder.fit(frame)
    x = dense(encoder.transform(frame))
    for name in ("n.csv", "n.jsonl", "n.parquet"):
        assert FeatureEncoder.fit(tmp_path / name) == encoder
        np.testing.assert_allclose(dense(encoder.transform(tmp_path / name)), x, atol=1e-6)


class TestJson:
    ENCODER = FeatureEncoder.fit(
        pl.DataFrame(
            {"n": [1.1, 2.3, None], "c": ["a", "b", "a"], "d": [date(2024, i, i) for i in (1, 2, 3)], "k": ["x"] * 3}
        )
    )

    def test_round_trip(self) -> None:
        text = self.ENCODER.to_json()
        assert json.loads(text)["format_version"] == 2
        assert FeatureEncoder.from_json(text) == self.ENCODER

    def test_a_file_of_this_version_stays_readable(self) -> None:
        kept = (
            '{"format_version":2,"columns":[{"name":"n","missing":1,"filled":1.0,"kind":"number","offset":1.7,'
            '"scale":0.6,"fill":1.7},{"name":"c","missing":0,"filled":1.0,"kind":"category","categories":["a","b"]},'
            '{"name":"t","missing":0,"filled":3.0,"kind":"text","slots":8}],"left_out":[{"name":"k","missing":0,'
            '"reason":"constant"}],"is_sparse":false,"structural":false}'
        )
        encoder = FeatureEncoder.from_json(kept)
        x = encoder.transform(pl.DataFrame({"n": [2.3, None], "c": ["b", "z"], "t": ["", "word"]}))
        np.testing.assert_allclose(x[:, :5], [[1, 0, 0, 1, 0], [0, 1, 0, 0, 1]], atol=1e-6)
        assert np.abs(x[:, 5:]).sum(axis=1).tolist() == [0, 1]

    @pytest.mark.parametrize("version", [1, 3])
    def test_other_versions_are_refused(self, version: int) -> None:
        text = self.ENCODER.to_json().replace('"format_version": 2', f'"format_version": {version}')
        with pytest.raises(DataError, match="made by another version of nlgnn") as caught:
            FeatureEncoder.from_json(text)
        assert caught.value.how

    @each_of(
        ("damage", "words"),
        [
            (lambda kept: "", "JSON"),
            (lambda kept: kept[:50], "JSON"),
            (lambda kept: "[1]", "object"),
            (lambda kept: kept.replace('"kind": "number"', '"kind": "numeral"'), "columns.0"),
            (lambda kept: kept.replace('"offset"', '"offzet"'), "offset"),
            (lambda kept: kept.replace('"scale": ', '"scale": -'), "scale"),
        ],
    )
    def test_damaged(self, damage: object, words: str) -> None:
        with pytest.raises(DataError, match=f"The feature encoder cannot be read.*{words}"):
            FeatureEncoder.from_json(damage(self.ENCODER.to_json()))


def test_missing_columns_are_named() -> None:
    encoder = FeatureEncoder.fit(pl.DataFrame({f"c{i}": [1.5, 2.5] for i in range(7)}))
    with pytest.raises(DataError, match=r"the table lacks columns 'c1', 'c2', 'c3', 'c4', 'c5' and 1 more, from which"):
        encoder.transform(pl.DataFrame({"c0": [1]}))


def test_dense_and_sparse_are_the_same_numbers() -> None:
    texts = [f"{text} {' '.join(f'w{i}{j}' for j in range(20))}" for i, text in enumerate(WORDS)]
    frame = pl.DataFrame({"n": [1.0, 2.0, 4.0] * 20, "t": texts * 2})
    encoder = FeatureEncoder.fit(frame)
    assert encoder.is_sparse
    as_dense = encoder.model_copy(update={"is_sparse": False}).transform(frame)
    np.testing.assert_array_equal(as_dense, encoder.transform(frame).toarray())
