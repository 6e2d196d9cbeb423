"""Numbers, dates, categories, lists and words as people write them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from table_samples import dense, write

from each_of import each_of
from nlgnn.errors import DataError
from nlgnn.tables import FeatureEncoder, read_graph, read_table, stack_tables
from nlgnn.tables.date_format import find_dates
from nlgnn.tables.number_format import find_numbers

NUMBERS: dict[str, tuple[list[str], list[float | None]]] = {
    "points": (["1,234.56", "7"], [1234.56, 7]),
    "commas": (["1.234,56", "7"], [1234.56, 7]),
    "commas told by a few cells": (["1.234", "5.678", "0,5"], [1234, 5678, 0.5]),
    "points told by a few cells": (["1,234", "5,678", "0.5"], [1234, 5678, 0.5]),
    "two groups tell the mark": (["1.234.567", "1.234"], [1234567, 1234]),
    "no zero before the group": (["0,123", "0,456"], [0.123, 0.456]),
    "unclear, as in English": (["1,234", "5,678", "9"], [1234, 5678, 9]),
    "plain fractions stay what they are": (["1.234", "5.678"], [1.234, 5.678]),
    "per cent": (["12 %", "3.5%", "7\u202f%"], [0.12, 0.035, 0.07]),
    "per mille": (["5‰", "1 ‰"], [0.005, 0.001]),
    "currencies": (["€ 30", "$1,200.50", "30 EUR", "USD 5", "US$7", "-£2", "2 kr"], [30, 1200.5, 30, 5, 7, -2, 2]),
    "brackets": (["(5)", "($1,000.5)", "6"], [-5, -1000.5, 6]),
    "signs": (["−5", "+6", "7-", "–8"], [-5, 6, -7, -8]),
    "kinds of blanks": (["1 234,5", "1\u202f234,5", "12\u00a0345,5", "1\u2009000"], [1234.5, 1234.5, 12345.5, 1000]),
    "apostrophes": (["1'234.5", "12’000"], [1234.5, 12000]),
    "lakhs and crores": (["12,34,567.8", "1,00,000"], [1234567.8, 100000]),
    "powers of ten": (["1,5e3", "2e-1"], [1500, 0.2]),
    "marks of missing values": (["-", "1,5", "?", "#N/A", "n/a", " "], [None, 1.5, None, None, None, None]),
    "no digits before the mark": ([",5", "1,5"], [0.5, 1.5]),
    "one unit": (["3.5 kg", "4kg", "10"], [3.5, 4, 10]),
    "one unit, decimal commas": (["1.234,5 km", "7,5 km"], [1234.5, 7.5]),
    "thousands and millions": (["5k", "1.5M", "7"], [5000, 1.5e6, 7]),
    "millions in German": (["5 Mio. €", "1,5 Mrd €", "7 Tsd. €"], [5e6, 1.5e9, 7000]),
    "a byte order mark inside": (["\ufeff5", "1,5"], [5, 1.5]),
}
NO_NUMBERS = [
    "1..2",
    "10.0.0.1",
    "(5",
    "5)",
    "-(5)",
    "1,23,4",
    "12.34.5",
    "1 2 3",
    "€",
    "%",
    "5 %%",
    "1e",
    "--5",
    "1/2",
    ",",
    "5 kg 3",
    "12A",
    "kg",
    "5 kk",
]


@each_of(("cells", "expected"), NUMBERS.values(), ids=NUMBERS)
def test_numbers(cells: list[str], expected: list[float | None]) -> None:
    assert find_numbers(pl.Series(cells)).numbers.to_list() == pytest.approx(expected)
    backwards = find_numbers(pl.Series(cells[::-1])).numbers.to_list()
    assert backwards == pytest.approx(expected[::-1])


@each_of("cell", NO_NUMBERS)
def test_what_is_no_number(cell: str) -> None:
    assert find_numbers(pl.Series([cell, "1,5", "2,5"])).numbers.to_list() == [None, 1.5, 2.5]


@each_of(
    ("cells", "words"),
    [
        (["1,234", "567"], "'1,234' was read as 1234, which is not sure"),
        (["1.234,5", "6"], "decimal commas"),
        (["5 %", "6 %"], "per cent read as fractions"),
        (["5 %", "6"], "some values lack the sign"),
        (["€ 5", "$ 6"], "currencies were not converted: $, €"),
        (["(5)", "6"], "numbers in brackets are negative"),
        (["-", "6"], "'-' read as missing"),
        (["5 kg", "6 kg"], "unit kg left off"),
        (["5k", "6"], "k read as 1,000"),
        (["5.5", "6"], ""),
        ([" 5", "6 "], ""),
    ],
)
def test_what_is_said_of_numbers(cells: list[str], words: str) -> None:
    remark = str(FeatureEncoder.fit(pl.DataFrame({"c": cells})).describe()[0]["remark"])
    assert words in remark
    assert bool(words) == bool(remark)


MARKS = {
    "en": (",", "."),
    "de": (".", ","),
    "fr": ("\u202f", ","),
    "sv": ("\u00a0", ","),
    "ch": ("’", "."),
    "none": ("", "."),
}
AROUND = ["{}", "€ {}", "{} EUR", "${}", "{} %"]


def written(number: float, marks: tuple[str, str], around: str, brackets: bool) -> str:
    """Format a number as a program of some country does."""
    digits = f"{abs(number):,.2f}".replace(",", "G").replace(".", marks[1]).replace("G", marks[0])
    text = around.format(digits)
    return text if number >= 0 else f"({text})" if brackets else f"−{text}"


@given(
    st.lists(st.integers(-(10**12), 10**12).map(lambda cents: cents / 100), min_size=1, max_size=8),
    st.sampled_from(sorted(MARKS)),
    st.sampled_from(AROUND),
    st.booleans(),
)
def test_numbers_of_any_country_are_read_back(numbers: list[float], country: str, around: str, brackets: bool) -> None:
    cells = [written(number, MARKS[country], around, brackets) for number in numbers]
    factor = 100 if "%" in around else 1
    found = find_numbers(pl.Series(cells))
    np.testing.assert_allclose(found.numbers.to_numpy() * factor, numbers, rtol=1e-12)
    assert not any("not sure" in remark for remark in found.remarks)  # cents tell the mark


DATES: dict[str, tuple[list[str], list[object]]] = {
    "day first": (["31/12/2024", "1/2/2024"], [date(2024, 12, 31), date(2024, 2, 1)]),
    "month first": (["12/31/2024", "1/2/2024"], [date(2024, 12, 31), date(2024, 1, 2)]),
    "unclear": (["3/4/2024", "5/6/2024"], [date(2024, 4, 3), date(2024, 6, 5)]),
    "dots": (["3.4.2024", "05.06.24"], [date(2024, 4, 3), date(2024, 6, 5)]),
    "hyphens": (["31-12-2024", "01-02-2024"], [date(2024, 12, 31), date(2024, 2, 1)]),
    "months": (["2024-03", "2023/12"], [date(2024, 3, 1), date(2023, 12, 1)]),
    "months before years": (["03/2024", "12/2023"], [date(2024, 3, 1), date(2023, 12, 1)]),
    "names of months": (
        ["3 Mar 2024", "March 3, 2024", "03-Mar-24", "3 April 2024"],
        [date(2024, 3, 3)] * 3 + [date(2024, 4, 3)],
    ),
    "zones": (
        ["2024-03-01T10:00:00+02:00", "2024-03-01T10:00:00Z", "2024-03-01 10:00:00.5 -0530", "2024-03-01T10:00+01"],
        [
            datetime(2024, 3, 1, 8),
            datetime(2024, 3, 1, 10),
            datetime(2024, 3, 1, 15, 30, 0, 500_000),
            datetime(2024, 3, 1, 9),
        ],
    ),
    "halves of days": (
        ["3/14/2024 1:05 PM", "3/1/2024 12:05 am"],
        [datetime(2024, 3, 14, 13, 5), datetime(2024, 3, 1, 0, 5)],
    ),
    "slashes and dots after years": (["2024/1/5", "2024.1.6"], [date(2024, 1, 5), date(2024, 1, 6)]),
    "years of two digits": (["31/12/69", "31/12/70"], [date(2069, 12, 31), date(1970, 12, 31)]),
    "leap days": (["29/02/2024", "29/02/2023"], [date(2024, 2, 29), None]),
    "marks of missing values": (["-", "31/12/2024"], [None, date(2024, 12, 31)]),
    "dates of databases that are none": (["0000-00-00", "2024-12-31"], [None, date(2024, 12, 31)]),
}
NO_DATES = [
    "2024-13-01",
    "2024-02-30",
    "32/1/2024",
    "1/2",
    "1-2-3",
    "2024.03",
    "12:30",
    "2024-01-01 25:00",
    "soon",
    "1/2/20244",
    "1-2/2024",
]


def days_since_1970(moment: object) -> float | None:
    if moment is None:
        return None
    at = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)  # type: ignore[attr-defined]
    return (at - datetime(1970, 1, 1)) / timedelta(days=1)


@each_of(("cells", "expected"), DATES.values(), ids=DATES)
def test_dates(cells: list[str], expected: list[object]) -> None:
    assert find_dates(pl.Series(cells)).days.to_list() == pytest.approx([days_since_1970(one) for one in expected])


@each_of("cell", NO_DATES)
def test_what_is_no_date(cell: str) -> None:
    assert find_dates(pl.Series([cell, "2024-12-31", "2024-12-30"])).days.to_list() == [None, 20088, 20087]


DATE_FORMATS = [
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d %b %Y",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %I:%M %p",
]


@given(
    st.lists(st.datetimes(datetime(1970, 1, 1), datetime(2069, 12, 31)), min_size=1, max_size=8),
    st.sampled_from(DATE_FORMATS),
)
def test_dates_of_any_form_are_read_back(moments: list[datetime], form: str) -> None:
    assume(any(moment.day > 12 for moment in moments))  # else day and month cannot be told apart
    has_time = "%M" in form
    cut = [
        moment.replace(second=0, microsecond=0, **({} if has_time else {"hour": 0, "minute": 0})) for moment in moments
    ]
    found = find_dates(pl.Series([moment.strftime(form) for moment in cut]))
    np.testing.assert_allclose(found.days.to_numpy(), [days_since_1970(moment) for moment in cut], atol=1e-9)


@each_of(
    ("name", "values", "kind", "words"),
    [
        ("created_at", [1_700_000_000 + 7 * i for i in range(30)], "date", "read as seconds since 1970"),
        ("ts", [1_700_000_000_000 + 7 * i for i in range(30)], "date", "read as milliseconds since 1970"),
        ("birth_date", [20240101 + i % 28 for i in range(30)], "date", "read as yyyymmdd"),
        ("amount", [1_700_000_000 + 7 * i for i in range(30)], "number", "can be dates (seconds): --kind amount=date"),
        ("created_at", [7 * i for i in range(30)], "number", ""),
        ("date_count", [3, 4, 5] * 10, "number", ""),
        ("created_at", [1_700_000_000.0 + i for i in range(29)] + [5.0], "number", ""),
    ],
)
def test_times_as_numbers(name: str, values: list[float], kind: str, words: str) -> None:
    for cells in (values, [str(value) for value in values]):
        (row,) = FeatureEncoder.fit(pl.DataFrame({name: cells})).describe()
        assert (row["kind"], words in str(row["remark"]), bool(row["remark"])) == (kind, True, bool(words))


def test_times_as_numbers_and_as_text_are_the_same() -> None:
    moments = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=17 * i) for i in range(40)]
    seconds = FeatureEncoder.fit(pl.DataFrame({"opened": [int(moment.timestamp()) for moment in moments]}))
    text = FeatureEncoder.fit(pl.DataFrame({"opened": [moment.isoformat() for moment in moments]}))
    assert seconds.columns[0].hours
    x = [
        dense(seconds.transform(pl.DataFrame({"opened": [int(moment.timestamp()) for moment in moments]}))),
        dense(text.transform(pl.DataFrame({"opened": [moment.isoformat() for moment in moments]}))),
    ]
    np.testing.assert_allclose(*x, atol=1e-5)
    assert x[0][:, -24:].argmax(axis=1).tolist() == [moment.hour for moment in moments]


class TestCategories:
    CELLS = ("Pro", " Pro", "pro", "PRO\u00a0", "free", "Free", "ｆｒｅｅ", "fr\u200bee", "pro  plus", "Pro plus")

    def test_spellings_are_merged_and_named(self) -> None:
        found = read_graph(pl.DataFrame({"node": range(21), "plan": [*self.CELLS, *self.CELLS, "Pro"]}), id="node")
        (column,) = found.encoder.columns
        assert [name.lower() for name in column.categories] == ["pro", "free", "pro plus"]
        x = dense(found.graph.x)[:10, :3].argmax(axis=1).tolist()
        assert x == [0] * 4 + [1] * 4 + [2] * 2
        remark = str(found.columns[1]["remark"])
        assert remark.startswith("merged ")
        assert "'Pro'" in remark
        new = found.encoder.transform(pl.DataFrame({"plan": ["pRO", "other", None]}))
        assert dense(new).argmax(axis=1).tolist() == [0, 3, 3]

    def test_a_column_that_is_constant_but_for_case(self) -> None:
        encoder = FeatureEncoder.fit(pl.DataFrame({"c": ["Yes!", "yes!", "YES! "] * 5, "x": [1.5, 2, 3] * 5}))
        assert [column.reason for column in encoder.left_out] == ["constant"]


class TestLists:
    @each_of(
        ("cells", "separator"),
        [
            (["a;b;c", "a;b", "b; c", "a", "c", "a;c"], ";"),
            (["a|b", "b", "A | c", "c|b", "c", "a", "a|b|c"], "|"),
            (["a, b", "b", "a, c", "c, b", "c", "a", "a, b, c"], ","),
            (["['a', 'b']", "['b']", "['a', 'c']", "['c', 'b']", "['c']", "['a']", "['a', 'b', 'c']"], ","),
        ],
    )
    def test_items_that_recur(self, cells: list[str], separator: str) -> None:
        encoder = FeatureEncoder.fit(pl.DataFrame({"c": cells}))
        (column,) = encoder.columns
        assert (column.kind, column.separator, sorted(map(str.lower, column.items))) == (
            "list",
            separator,
            ["a", "b", "c"],
        )
        new = dense(encoder.transform(pl.DataFrame({"c": [separator.join("ab"), f"c{separator}new", ""]})))
        slots = [sorted(column.items[i].lower() if i < 3 else "other" for i in np.flatnonzero(row)) for row in new]
        assert slots == [["a", "b"], ["c", "other"], []]

    @each_of(
        "cells",
        [
            ["Paris, France", "Lyon, France", "Berlin, Germany", "Munich, Germany"] * 3,
            ["Doe, John", "Roe, Jane", "Poe, Edgar", "Doe, Jane"] * 3,
            [f"The {a}, and then the {b}; it ended well for all of them there." for a in "abcdefg" for b in "xyz"],
            ["a;b", "a;b", "c"],
        ],
    )
    def test_other_text_with_commas(self, cells: list[str]) -> None:
        assert FeatureEncoder.fit(pl.DataFrame({"c": cells})).columns[0].kind != "list"

    def test_lists_of_text_in_typed_files(self) -> None:
        frame = pl.DataFrame({"c": [["a", "b"], ["b"], None, []]})
        encoder = FeatureEncoder.fit(frame)
        np.testing.assert_array_equal(
            dense(encoder.transform(frame)), [[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]]
        )


def test_names_of_few_words_have_a_vocabulary() -> None:
    colours, things = [f"colour{i}" for i in range(20)], [f"thing{i}" for i in range(20)]
    cells = [f"{colour} {thing}" for colour in colours for thing in things]
    (column,) = FeatureEncoder.fit(pl.DataFrame({"c": cells})).columns
    assert column.vocabulary == tuple(sorted(colours + things))
    serial = FeatureEncoder.fit(pl.DataFrame({"c": [f"user {i}" for i in range(400)]}))
    assert [left.reason for left in serial.left_out] == ["key"]


class TestNewTables:
    """The encoder of a training reads new files that are written in another way."""

    OLD = "id,amount,day,plan,tags\n" + "".join(
        f'{i},"{1000 + i}.5",{i % 28 + 1}/1/2024,{"ab"[i % 2]},{"x;y" if i % 2 else "y"}\n' for i in range(60)
    )

    def test_other_marks_and_unseen_values(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            {"old.csv": self.OLD, "new.csv": 'id,amount,day,plan,tags\n60,"1.007,5",2024-01-08,zzz,z\n61,,,,\n'},
        )
        first = read_graph(tmp_path / "old.csv")
        stacked = stack_tables(read_table(tmp_path / "old.csv"), read_table(tmp_path / "new.csv"))
        x = dense(read_graph(stacked, encoder=first.encoder, id="id").graph.x)
        slots = first.encoder.slots
        np.testing.assert_allclose(x[60, slots["amount"]], x[7, slots["amount"]], rtol=1e-6)
        np.testing.assert_allclose(x[60, slots["day"]], x[7, slots["day"]], rtol=1e-6)
        assert x[60, slots["plan"]].tolist() == [0, 0, 1]
        assert np.isfinite(x).all()

    def test_unclear_cells_are_read_as_in_training(self, tmp_path: Path) -> None:
        old = "id,amount,day\n" + "".join(f'{i},"{i},5",{i % 12 + 1}/{i % 28 + 1}/2024\n' for i in range(60))
        write(tmp_path, {"old.csv": old, "new.csv": 'id,amount,day\n60,"1,500",3/4/2024\n'})
        encoder = read_graph(tmp_path / "old.csv").encoder
        new = read_table(tmp_path / "new.csv")
        amount, day = encoder.columns
        assert amount.numbers(new.column("amount"), new).tolist() == [1.5]
        assert day.numbers(new.column("day"), new).tolist() == [days_since_1970(date(2024, 3, 4))]

    def test_a_cell_that_does_not_fit_is_named(self, tmp_path: Path) -> None:
        write(tmp_path, {"old.csv": self.OLD, "new.csv": "id,amount,day\n60,1.5,2024-01-08\n61,lots,2024-01-08\n"})
        encoder = read_graph(tmp_path / "old.csv").encoder
        with pytest.raises(DataError, match=r"new\.csv, line 3, column 'amount' is 'lots', not a number"):
            encoder.columns[0].encode(
                read_table(tmp_path / "new.csv").column("amount"), read_table(tmp_path / "new.csv")
            )


messy_cells = st.sampled_from(
    ["1,5", "1.5", "1,234", "12 %", "-", "", "a;b", "b", "A", " a", "3/4/2024", "13/4/2024", "x y", "yes"]
)


@given(st.lists(messy_cells, min_size=2, max_size=25), st.randoms())
def test_the_order_of_rows_decides_nothing(cells: list[str], random: object) -> None:
    order = list(range(len(cells)))
    random.shuffle(order)  # type: ignore[attr-defined]
    frame = pl.DataFrame({"c": cells})
    encoder = FeatureEncoder.fit(frame)
    assert FeatureEncoder.fit(frame[order]) == encoder
    assert FeatureEncoder.from_json(encoder.to_json()) == encoder
    if encoder.columns:
        x = dense(encoder.transform(frame))
        np.testing.assert_array_equal(x[order], dense(encoder.transform(frame[order])))
        assert np.isfinite(x).all()


def test_faults_in_a_column_of_dates_are_named() -> None:
    cells = [f"{i % 28 + 1}.{i % 12 + 1}.2024" for i in range(100)] + ["soon"]
    with pytest.raises(DataError, match=r"row 101, column 'c' is 'soon', not a date"):
        FeatureEncoder.fit(pl.DataFrame({"c": cells}))


def test_dates_and_amounts_are_no_ids() -> None:
    days = [f"{day}/1/2024" for day in range(1, 31)]
    amounts = [f"€ {i},50" for i in range(30)]
    found = read_graph(pl.DataFrame({"when": days, "price": amounts, "code": [f"k{i}" for i in range(30)]}))
    assert found.graph.node_names[:2] == ("k0", "k1")
    assert [row["kind"] for row in found.columns] == ["date", "number", "ids"]
