"""From two tables to a graph: roles, labels, edges, splits, and what is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from table_samples import EDGES, NODES, dense, read, write

from each_of import each_of
from nlgnn.datasets import load_graph
from nlgnn.errors import DataError, OptionError
from nlgnn.tables import read_graph, read_table, stack_tables
from nlgnn.tables.structural import structural_table

IDS = ["a", "b", "c", "d", "e"]


def said(notes: tuple[str, ...], words: str) -> bool:
    return any(words in note for note in notes)


def test_a_small_graph(tmp_path: Path) -> None:
    found = read(tmp_path)
    graph = found.graph
    assert (graph.name, graph.directed, graph.node_names) == ("nodes", False, tuple(IDS))
    assert graph.class_names == ("cat", "dog")
    assert graph.y.tolist() == [0, 1, 0, 1, -1]
    assert graph.edge_index.tolist() == [[0, 1, 3], [1, 2, 0]]
    root = 2**0.5
    size = np.array([-root, -root / 2, 0, root / 2, root])
    slots = {"blue": [0, 1, 0, 1, 0], "red": [1, 0, 1, 0, 0], "other": [0] * 5, "missing": [0, 0, 0, 0, 1]}
    np.testing.assert_allclose(dense(graph.x), np.stack([size, *slots.values()], axis=1), rtol=1e-6)
    assert found.graph.edge_weight is None
    assert found.warnings == ()
    for words in (
        "the column 'id' holds the ids (found by its name)",
        "edges go from 'source' to 'target' (found by name)",
        "'label' holds the labels: 2 classes; 4 of 5 nodes have one",
        "2 columns became 5 features (1 of kind number, 1 of kind category; dense)",
    ):
        assert said(found.notes, words), words
    assert [tuple(row.values()) for row in found.columns] == [
        ("id", "ids", 0, 0, ""),
        ("label", "labels", 0, 0, ""),
        ("size", "number", 1, 0, ""),
        ("colour", "category", 4, 1, ""),
    ]


@each_of(
    ("columns", "id", "how"),
    [
        ({"x": [1, 1, 2, 2, 3], "Node ID": IDS}, "Node ID", "found by its name"),
        ({"name": IDS, "node": IDS}, "node", "found by its name"),
        ({"name": ["x"] * 5, "code": IDS}, "code", "the first with all values different"),
        ({"x": [0.5, 1, 2, 3, 4], "code": [5, 3, 9, 1, 0]}, "code", "the first with all values different"),
        ({"x": [1, 1, 2, 2, 3]}, None, "numbered from 0"),
        ({"x": [0.5, 1.5, 2, 3, 4]}, None, "numbered from 0"),
    ],
)
def test_ids_are_found(columns: dict[str, list[object]], id: str | None, how: str) -> None:
    found = read_graph(pl.DataFrame(columns))
    assert found.graph.node_names == tuple(map(str, range(5) if id is None else columns[id]))
    assert said(found.notes, how)
    if id is not None:
        assert said(found.notes, repr(id))
    feature_columns = {row["column"] for row in found.encoder.describe()}
    assert id not in feature_columns


@each_of(
    ("header", "options", "ends"),
    [
        ("source,target", {}, [0, 1]),
        ("Source,TARGET", {}, [0, 1]),
        ("when,src,dst", {}, [1, 2]),
        ("to,from", {}, [1, 0]),
        ("u,weight,v", {}, [0, 2]),
        ("node_1,node_2,w", {}, [0, 1]),
        ("x,y,z", {}, [0, 1]),
        ("weight,x,y", {}, [1, 2]),
        ("x,y,z", {"source": "z"}, [2, 0]),
        ("x,y,z", {"target": "x"}, [1, 0]),
        ("source,target,y", {"target": "y"}, [2, 0]),  # the pair does not fit what is given
        ("source,target,y", {"source": "y", "target": "source"}, [2, 0]),
    ],
)
def test_edge_columns_are_found(header: str, options: dict[str, str], ends: list[int]) -> None:
    names = header.split(",")
    values = [[0, 1], [2, 3], [4, 5]]
    found = read_graph(edges=pl.DataFrame(dict(zip(names, values, strict=False))), **options)
    if header == "source,target,y" and "source" not in options:
        ends = [0, 2]
    edges = np.array(found.graph.node_names)[found.graph.edge_index]
    assert edges.astype(int).tolist() == [values[ends[0]], values[ends[1]]]
    assert (found.graph.edge_weight is not None) == bool({"weight", "w"} & set(names))


@each_of(
    ("node_ids", "ends"),
    [
        ([10, 30, 20], ["30", " 20"]),
        (["10", "30", "20"], [30, 20]),
        ([10.0, 30.0, 20.0], [30, 20]),
        (pl.Series([10, 30, 20], dtype=pl.UInt8), pl.Series([30, 20], dtype=pl.Int64)),
        ([2**63, 30, 20], [30, 20]),
        (pl.Series(["10", "30", "20"], dtype=pl.Categorical), ["30", "20"]),
    ],
)
def test_ids_of_any_type(node_ids: object, ends: object) -> None:
    nodes = pl.DataFrame({"id": node_ids, "x": [1, 2, 2]})
    found = read_graph(nodes, pl.DataFrame({"source": ends, "target": ends}))
    assert found.graph.edge_index.tolist() == [[1, 2], [1, 2]]
    assert found.graph.node_names[1:] == ("30", "20")


def test_ids_are_not_numbers(tmp_path: Path) -> None:
    found = read(tmp_path, "id,label\n007,x\n7,y\nNA,x\n", "source,target\n7,007\nNA,7\n")
    assert found.graph.edge_index.tolist() == [[1, 2], [0, 1]]


class TestUnknownNodes:
    EDGES = "source,target,w\na,b,1\nz,a,2\nb,y,3\nz,y,4\nc,d,5\n"

    def test_drop(self, tmp_path: Path) -> None:
        found = read(tmp_path, NODES, self.EDGES, unknown_nodes="drop")
        assert found.graph.edge_index.tolist() == [[0, 2], [1, 3]]
        assert found.graph.edge_weight.tolist() == [1, 5]
        assert said(found.notes, "lacks were left out (3 such edges)")

    def test_add(self, tmp_path: Path) -> None:
        found = read(tmp_path, NODES, self.EDGES, unknown_nodes="add")
        assert found.graph.node_names == (*IDS, "z", "y")
        assert found.graph.edge_index.tolist() == [[0, 5, 1, 5, 2], [1, 0, 6, 6, 3]]
        assert found.graph.y.tolist() == [0, 1, 0, 1, -1, -1, -1]
        assert said(found.notes, "lacks became nodes (2 such ids)")
        # Their features are missing: the mean size, marked as such, and the slot for a missing colour.
        names = {row["column"]: row for row in found.encoder.describe()}
        assert (names["size"]["missing"], names["colour"]["missing"]) == (2, 3)
        np.testing.assert_allclose(dense(found.graph.x)[-1], [0, 1, 0, 0, 0, 1], atol=1e-6)

    def test_another_word(self, tmp_path: Path, as_users_run_it: None) -> None:
        with pytest.raises(OptionError, match=r"(?s)unknown_nodes='drpo'.*mean 'drop'"):
            read(tmp_path, unknown_nodes="drpo")


def test_loops_and_repetitions_are_kept_and_counted(tmp_path: Path) -> None:
    found = read(tmp_path, NODES, EDGES + "a,a\nb,c\nb,c\n")
    assert found.graph.edge_index.shape == (2, 6)
    assert said(found.notes, "joins nodes to themselves (1 such edge)")
    assert said(found.notes, "gives edges again (2 such rows)")


def test_weights_are_the_graphs_and_what_is_odd_is_said(tmp_path: Path) -> None:
    plain = "source,target,weight\na,b,2\nb,c,0.5\n"
    found = read(tmp_path, edges=plain)
    assert found.graph.edge_weight.tolist() == [2, 0.5]
    assert said(found.notes, "weights are from 0.5 to 2.")
    odd = ("gives edges again", "edges of weight 0", "different weights")
    assert not any(said(found.notes, words) for words in odd)
    found = read(tmp_path, edges=plain + "a,b,1\nb,a,4\nc,b,0.5\nd,e,0\n")
    assert found.graph.undirected_weights.toarray()[:3, :3].tolist() == [[0, 4, 0], [4, 0, 0.5], [0, 0.5, 0]]
    assert found.graph.num_edges == 2
    assert said(found.notes, "gives edges again (1 such row): their weights are added.")
    assert said(found.notes, "edges of weight 0 were ignored (1 such row)")
    assert said(found.notes, "gives the two directions of a pair different weights (1 such pair)")


def test_weights_of_which_none_is_left(tmp_path: Path) -> None:
    found = read(tmp_path, edges="source,target,weight\nz,a,2\n", unknown_nodes="drop")
    assert found.graph.edge_weight.tolist() == []


def test_no_edges_and_no_nodes(tmp_path: Path) -> None:
    write(tmp_path, {"nodes.csv": NODES})
    found = read_graph(tmp_path / "nodes.csv", label="label")
    assert found.graph.edge_index.shape == (2, 0)
    assert found.warnings == ("No edges were given: only features can help.",)
    with pytest.raises(OptionError, match="Neither nodes nor edges"):
        read_graph()
    with pytest.raises(OptionError, match="no table of nodes"):
        read_graph(edges=tmp_path / "nodes.csv", label="label")
    with pytest.raises(OptionError, match="no table of edges"):
        read_graph(tmp_path / "nodes.csv", source="x")
    with pytest.raises(OptionError, match=r"'id' .* has two roles"):
        read_graph(tmp_path / "nodes.csv", id="id", label="id")
    with pytest.raises(OptionError, match="holds ids, not labels"):
        read_graph(tmp_path / "nodes.csv", label="id")


class TestLabels:
    def labels(self, values: object, **options: object) -> tuple[list[int], tuple[str, ...]]:
        found = read_graph(pl.DataFrame({"id": range(len(values)), "label": values}), label="label", **options)
        self.notes, self.warnings = found.notes, found.warnings
        return found.graph.y.tolist(), found.graph.class_names

    def test_numbers_are_in_the_order_of_numbers(self) -> None:
        assert self.labels(["10", "9", "10", None, "9"]) == ([1, 0, 1, -1, 0], ("9", "10"))
        assert self.labels([10, 9, 10, None, -1, -1]) == ([2, 1, 2, -1, 0, 0], ("-1", "9", "10"))

    def test_whole_numbers_lose_their_point(self) -> None:
        assert self.labels([10.0, 9.0, 10.0, None, float("nan"), 9]) == ([1, 0, 1, -1, -1, 0], ("9", "10"))
        assert self.labels(["1.0", "0", "1", "0.0"]) == ([1, 0, 1, 0], ("0", "1"))
        assert said(self.notes, "were read as one")

    def test_truths(self) -> None:
        assert self.labels([True, False, None, True, False]) == ([1, 0, -1, 1, 0], ("false", "true"))

    def test_missing_ones(self) -> None:
        values = ["b", "", None, "NA", " nan ", "NULL", "n/a", "a", "none", "b", "a", "none"]
        assert self.labels(values) == ([1, -1, -1, -1, -1, -1, -1, 0, 2, 1, 0, 2], ("a", "b", "none"))
        assert said(self.notes, "labels such as NA or null were read as unknown (4 such cells)")

    def test_blanks_around_names(self) -> None:
        assert self.labels([" cat", "cat ", "dog", "dog"]) == ([0, 0, 1, 1], ("cat", "dog"))
        assert said(self.notes, "differ only in blanks")
        self.labels(["cat", "cat", "dog", "dog"])
        assert not said(self.notes, "differ only in blanks")

    def test_classes_of_one_node_are_named(self) -> None:
        self.labels(["a", "a", "b", "c", "c"])
        assert self.warnings[-1] == "Classes of a single node, which cannot be both learned and tested: 'b'."

    def test_rare_classes_are_named_with_what_helps(self) -> None:
        self.labels(["a"] * 21 + ["b"] * 2 + ["c"] * 3)
        assert said(self.notes, "Rare compared with 'a': 'b'. With --class-weight balanced ")
        self.labels(["a"] * 21 + ["b"] * 3)
        assert not said(self.notes, "--class-weight")

    def test_the_classes_of_a_model(self) -> None:
        classes = ("dog", "cat", "bird")
        assert self.labels(["cat", "", "cat"], class_names=classes) == ([1, -1, 1], classes)
        assert self.labels([None, None], class_names=classes) == ([-1, -1], classes)
        with pytest.raises(
            DataError, match=r"(?s)row 2, column 'label' is 'bat', a class that the model does not know"
        ):
            self.labels(["cat", "bat"], class_names=classes)


class TestSplits:
    def test_by_name(self, tmp_path: Path) -> None:
        nodes = "id,label,Split,x\na,p,train,1\nb,q,Validation,2\nc,p,TEST,2\nd,q,,1\ne,,test,3\n"
        found = read(tmp_path, nodes)
        (split,) = found.graph.splits["column"]
        assert [np.flatnonzero(part).tolist() for part in (split.train, split.val, split.test)] == [[0], [1], [2]]
        assert said(found.notes, "nodes without a label are in no part (1 such node)")
        assert [row["column"] for row in found.encoder.describe()] == ["x"]

    def test_several(self) -> None:
        parts = ["train", "val", "test", "train"]
        columns = {f"split_{i}": parts[i % 4 :] + parts[: i % 4] for i in range(11)}
        nodes = pl.DataFrame({"id": range(4), "label": ["a", "b", "a", "b"], **columns})
        for split in (None, "split"):
            splits = read_graph(nodes, label="label", split=split).graph.splits["column"]
            assert [np.flatnonzero(split.val)[0] for split in splits] == [1, 0, 3, 2, 1, 0, 3, 2, 1, 0, 3]
            assert [split.index for split in splits] == list(range(11))

    def test_a_column_of_that_name_that_holds_no_parts_is_a_feature(self) -> None:
        found = read_graph(pl.DataFrame({"id": IDS, "part": ["wheel", "door", "door", "wheel", "train"]}))
        assert found.graph.splits == {}
        assert [row["column"] for row in found.encoder.describe()] == ["part"]


class TestNodesNeverSeen:
    def test_the_same_encoder(self, tmp_path: Path) -> None:
        first = read(tmp_path)
        new = "id,size,extra,colour,label\nx,3,1,green,\ny,,1,,dog\n"
        options = {"encoder": first.encoder, "class_names": first.graph.class_names}
        found = read(tmp_path, new, "source,target\nx,y\n", **options)
        assert found.encoder is first.encoder
        np.testing.assert_allclose(dense(found.graph.x), [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], atol=1e-6)
        assert found.graph.y.tolist() == [-1, 1]
        assert said(found.notes, "not used, because the model was trained without: 'extra'")
        with pytest.raises(DataError, match=r"nodes\.csv lacks the column 'size'"):
            read(tmp_path, "id,colour,label\nx,red,cat\n", "source,target\nx,x\n", **options)
        with pytest.raises(DataError, match="the list of nodes lacks columns 'size', 'colour', from which features"):
            read_graph(edges=tmp_path / "edges.csv", encoder=first.encoder)

    def test_structural_features(self, tmp_path: Path) -> None:
        edges = "source,target\n" + "".join(f"{i},{j}\n" for i in range(8) for j in range(i))
        write(tmp_path, {"e.csv": edges + "0,8\n8,9\n", "more.csv": edges + "0,8\n8,9\n9,10\n"})
        first = read_graph(edges=tmp_path / "e.csv")
        again = read_graph(edges=tmp_path / "e.csv", encoder=first.encoder)
        np.testing.assert_array_equal(first.graph.x, again.graph.x)
        more = read_graph(edges=tmp_path / "more.csv", encoder=first.encoder).graph
        np.testing.assert_array_equal(more.x, first.encoder.transform(structural_table(more)[0]))


class TestStackedTables:
    def test_rows_of_both(self, tmp_path: Path) -> None:
        first = pl.DataFrame({"id": [1.0, 2.0, 3.0], "size": [1, 2, 4], "colour": ["red", "blue", "red"]})
        first.write_parquet(tmp_path / "old.parquet")
        write(tmp_path, {"new.csv": "extra,size,id\n0,2,4\n0,,5\n"})
        stacked = stack_tables(read_table(tmp_path / "old.parquet"), read_table(tmp_path / "new.csv"))
        encoder = read_graph(first).encoder
        found = read_graph(stacked, pl.DataFrame({"u": [1, 4], "v": [5, 2]}), id="id", encoder=encoder)
        assert found.graph.node_names == ("1", "2", "3", "4", "5")
        assert found.graph.edge_index.tolist() == [[0, 3], [4, 1]]
        x = dense(encoder.transform(first))
        np.testing.assert_array_equal(dense(found.graph.x)[:3], x)
        np.testing.assert_allclose(dense(found.graph.x)[3:], [[x[1, 0], 0, 0, 1], [0, 0, 0, 1]], atol=1e-6)

    def test_places(self, tmp_path: Path) -> None:
        write(tmp_path, {"old.csv": "id,size\na,1\nb,2\n", "new.csv": "id,size\nc,3\nb,much\n"})
        old, new = (read_table(tmp_path / name) for name in ("old.csv", "new.csv"))
        encoder = read_graph(old).encoder
        with pytest.raises(
            DataError, match=r"new\.csv, line 3, column 'id' is 'b', which .*old\.csv, line 3 has already"
        ):
            read_graph(stack_tables(old, new), encoder=encoder)
        with pytest.raises(DataError, match=r"^\S*new\.csv, line 3, column 'size' is 'much', not a number"):
            encoder.transform(stack_tables(old, new))

    def test_integers_and_fractions(self) -> None:
        one, other = read_table(pl.DataFrame({"a": [1]})), read_table(pl.DataFrame({"a": [0.5]}))
        assert stack_tables(one, other).column("a").to_list() == [1.0, 0.5]

    def test_what_does_not_fit(self) -> None:
        one, other = read_table(pl.DataFrame({"a": [1]})), read_table(pl.DataFrame({"b": [1]}), "the new nodes")
        with pytest.raises(DataError, match="the new nodes has no column of the table, but 'b'"):
            stack_tables(one, other)
        lists = read_table(pl.DataFrame({"a": [[1]]}), "the new nodes")
        with pytest.raises(DataError, match=r"the new nodes, column 'a' holds values of type List\(Int64\), not Int64"):
            stack_tables(one, lists).column("a")


def texas_as_tables(folder: Path) -> tuple[Path, Path]:
    graph = load_graph("texas")
    columns = {f"word {i}": column for i, column in enumerate(dense(graph.x).T.astype(int))}
    label = [graph.class_names[label] for label in graph.y]
    pl.DataFrame({"page": [f"p{i}" for i in range(graph.num_nodes)], "topic": label, **columns}).write_csv(
        folder / "n.csv"
    )
    ends = [[f"p{i}" for i in end] for end in graph.edge_index]
    pl.DataFrame({"from": ends[0], "to": ends[1]}).write_csv(folder / "e.csv")
    return folder / "n.csv", folder / "e.csv"


def test_a_real_graph_written_out_is_the_same_graph(tmp_path: Path, data_root: Path) -> None:
    nodes, edges = texas_as_tables(tmp_path)
    original = load_graph("texas")
    found = read_graph(nodes, edges, id="page", label="topic", standardise=False, directed=original.directed)
    assert found.graph.fingerprint == original.fingerprint
    np.testing.assert_array_equal(found.graph.edge_index, original.edge_index)
    assert not said(found.warnings, "alone tells")
