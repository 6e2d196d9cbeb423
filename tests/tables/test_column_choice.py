"""Columns that a user drops, keeps or gives a kind, and columns that give away the label."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from each_of import each_of
from nlgnn.cli.given_graph import own_tables
from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.tables import read_graph, read_graph_file
from nlgnn.tables.column_choice import dropping
from nlgnn.tables.store_builder import TableColumns, build_store

RNG = np.random.default_rng(0)
LABELS = np.array(["cat", "dog"])[np.arange(60) % 2]
FRAME = pl.DataFrame(
    {
        "node": [f"n{i}" for i in range(60)],
        "label": LABELS,
        "size": RNG.normal(size=60),
        "zip": 10_000 + 7 * (np.arange(60) % 25),
        "plan": RNG.choice(["free", "pro"], 60),
        "was, it": np.where(LABELS == "cat", "c", "d"),
        "day": [f"{1 + i % 28}/1/2024" for i in range(60)],
        "code": [f"k{i}" for i in range(60)],
    }
)


def kinds(**options: object) -> dict[str, str]:
    found = read_graph(FRAME, label="label", **options)
    assert [row["column"] for row in found.columns] == FRAME.columns  # in the order of the table
    return {str(row["column"]): str(row["kind"]) for row in found.columns}


def test_kinds_that_are_found() -> None:
    assert kinds() == {
        "node": "ids",
        "label": "labels",
        "size": "number",
        "zip": "number",
        "plan": "category",
        "was, it": "category",
        "day": "date",
        "code": "–",
    }


@each_of(
    ("options", "changes"),
    [
        ({"drop": ["size"]}, {"size": "dropped"}),
        ({"drop": "size,plan"}, {"size": "dropped", "plan": "dropped"}),
        ({"drop": ["was, it"]}, {"was, it": "dropped"}),
        ({"drop": ["node"]}, {"node": "dropped", "code": "ids"}),  # as if it were not there
        ({"kind": {"size": "ignore"}}, {"size": "dropped"}),
        ({"kind": {"zip": "category", "code": "text"}}, {"zip": "category", "code": "text"}),
        ({"kind": {"day": "category", "plan": "text", "size": "number"}}, {"day": "category", "plan": "text"}),
        ({"kind": {"node": "category"}}, {"node": "category", "code": "ids"}),
        ({"drop_leaks": True}, {"was, it": "–"}),
        ({"keep": ["size", "plan"]}, dict.fromkeys(("zip", "was, it", "day", "code"), "dropped")),
        ({"keep": ["size", "node", "label"]}, dict.fromkeys(("zip", "plan", "was, it", "day", "code"), "dropped")),
    ],
)
def test_choices(options: dict[str, object], changes: dict[str, str]) -> None:
    assert kinds(**options) == kinds() | changes


@each_of(
    ("options", "error", "words"),
    [
        ({"drop": ["sise"]}, DataError, r"(?s)no column 'sise' for --drop.*'size'"),
        ({"keep": ["size", "plans"]}, DataError, r"(?s)no column 'plans' for --keep.*'plan'"),
        ({"kind": {"sise": "text"}}, DataError, r"(?s)no column 'sise' for --kind.*'size'"),
        ({"kind": {"size": "numbr"}}, OptionError, r"(?s)'size' cannot be of the kind 'numbr'.*'number'"),
        ({"drop": ["size"], "keep": ["size"]}, OptionError, "'size' is dropped and used"),
        ({"drop": ["size"], "kind": {"size": "text"}}, OptionError, "'size' is dropped and used"),
        ({"drop": ["label"]}, OptionError, "'label' holds the labels"),
        ({"kind": {"label": "text"}}, OptionError, "'label' holds the labels"),
        ({"drop": ["node"], "id": "node"}, OptionError, "'node' holds the ids"),
        ({"kind": {"plan": "number"}}, DataError, "column 'plan' is '(free|pro)', not a number"),
        ({"kind": {"plan": "date"}}, DataError, "column 'plan' is '(free|pro)', not a date"),
        ({"drop": [name for name in FRAME.columns if name != "label"], "label": None}, None, ""),
    ],
)
def test_mistakes(options: dict[str, object], error: type[NlgnnError] | None, words: str) -> None:
    if error is None:
        assert read_graph(FRAME, **options).graph.num_nodes == 60  # only the labels are left, as a feature
        return
    with pytest.raises(error, match=words) as caught:
        read_graph(FRAME, **{"label": "label", **options})
    assert caught.value.how


def test_nothing_is_left() -> None:
    with pytest.raises(OptionError, match="All columns of the table of nodes are dropped"):
        read_graph(FRAME, drop=FRAME.columns)
    found = read_graph(FRAME, pl.DataFrame({"u": ["n1", "n2"], "v": ["n3", "n1"]}), label="label", keep="label")
    assert found.encoder.structural
    assert {row["kind"] for row in found.columns} == {"ids", "labels", "dropped"}


def test_a_leak_is_named_with_the_flag_that_drops_it() -> None:
    (warning,) = [one for one in read_graph(FRAME, label="label").warnings if "alone tells" in one]
    flag, name = shlex.split(warning.partition("out by ")[2].partition(" (--drop-leaks")[0])
    assert (flag, name) == ("--drop", "was, it")
    assert not any("alone tells" in one for one in read_graph(FRAME, label="label", drop=[name]).warnings)
    without = read_graph(FRAME, label="label", drop_leaks=True)
    assert not any("alone tells" in one for one in without.warnings)
    assert [row["remark"] for row in without.columns if row["column"] == name] == ["left out: it tells the label"]
    assert dropping("-x") == "--drop=-x"


@each_of("roles", [{"split": "part"}, {"time": "part"}])
def test_labels_of_test_nodes_drop_no_column(roles: dict[str, str], tmp_path: Path) -> None:
    """In memory and in a store."""
    place = np.arange(60)
    parts = np.repeat(["train", "val", "test"], [36, 12, 12]) if "split" in roles else place
    found = []
    for labels in (LABELS, np.where(place < 48, LABELS, LABELS[::-1])):  # reversed, all labels are others
        path = tmp_path / str(len(found))
        path.mkdir()
        FRAME.with_columns(label=pl.Series(labels), part=pl.Series(parts)).write_csv(path / "nodes.csv")
        of_store = TableColumns(label="label", drop_leaks=True, **roles)
        for made in (
            read_graph(path / "nodes.csv", label="label", drop_leaks=True, **roles),
            build_store(path / "nodes.csv", None, path / "store", of_store, memory=1 << 30),
        ):
            found.append([row["column"] for row in made.columns if row["remark"] == "left out: it tells the label"])
    assert found == 4 * [["was, it"]]


def test_new_nodes_need_no_dropped_column() -> None:
    first = read_graph(FRAME, label="label", drop=["size"], drop_leaks=True)
    new = FRAME.drop("size", "was, it").head(5)
    found = read_graph(new, label="label", encoder=first.encoder, class_names=first.graph.class_names)
    np.testing.assert_array_equal(found.graph.x, first.graph.x[:5])


def test_columns_of_no_table(tmp_path: object) -> None:
    with pytest.raises(OptionError, match="no table of nodes"):
        read_graph(edges=pl.DataFrame({"u": [1], "v": [2]}), drop=["size"])
    with pytest.raises(OptionError, match="no columns to name"):
        read_graph_file(f"{tmp_path}/x.npz", keep=["size"])


@each_of("text", ["size", "=", "size:number"])
def test_kinds_on_the_command_line(text: str) -> None:
    with pytest.raises(OptionError):
        own_tables({"nodes": "n.csv", "kind": [text]})


def test_a_name_with_an_equals_sign() -> None:
    found = own_tables({"nodes": "n.csv", "kind": ["a=b=text"], "drop": ["x"]})
    assert (found.kind, found.drop) == ({"a=b": "text"}, ("x",))
    assert found.flags[2:] == ["--drop=x", "--kind=a=b=text"]
