"""OwnTables: where a user's graph comes from, as flags, as files, and read again later."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import networkx
import pytest

from each_of import each_of
from nlgnn.cli.given_graph import own_tables
from nlgnn.cli.options import ROLES, TABLE_FLAGS
from nlgnn.errors import DataError, OptionError
from nlgnn.tables import FeatureEncoder
from nlgnn.tables.source import OwnTables

NODES = "key,id,size,label\nb,1,0.5,x\na,2,1.5,y\nc,3,2.5,x\n"
EDGES = "source,target,weight\na,b,1\nb,c,2\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnTables:
    monkeypatch.chdir(tmp_path)
    Path("nodes.csv").write_text(NODES)
    Path("edges.csv").write_text(EDGES)
    return OwnTables.at("nodes.csv", "edges.csv", label="label", id="key")


def settings_of(words: list[str]) -> dict[str, object]:
    """What a command line makes of flags."""
    names = {f"--{name.replace('_', '-')}": name for name in TABLE_FLAGS}
    found: dict[str, object] = {}
    while words:
        flag, *words = words
        flag, _, value = flag.partition("=")
        if names[flag] in ("directed_edges", "drop_leaks"):
            found[names[flag]] = True
        elif value:
            found.setdefault(names[flag], []).append(value)
        else:
            found[names[flag]], *words = words
    return found


@each_of(
    "given",
    [
        OwnTables.at("a b.csv"),
        OwnTables.at("n.csv", "e.csv", None, **{name: name for name in ("label", "id", "source", "target", "split")}),
        OwnTables.at("n.csv", "e.csv", weight="w", directed=True, unknown_nodes="drop"),
        OwnTables.at(graph_file="web.graphml", label="topic", directed=True),
        OwnTables.at(
            "n.csv", drop=("a b", "-c"), keep=("d", "e=f"), kind={"d": "text", "e=f": "date"}, drop_leaks=True
        ),
    ],
    ids=str,
)
def test_flags_give_the_same_tables_again(given: OwnTables) -> None:
    settings = settings_of(given.flags) | {"model": "mlp"}
    assert own_tables(settings) == given
    assert settings == {"model": "mlp"}


def test_every_field_has_a_flag() -> None:
    assert {field.name for field in fields(OwnTables)} == set(ROLES.values())


def test_something_said_of_no_tables() -> None:
    assert own_tables({"model": "mlp", "nodes": None}) is None
    with pytest.raises(OptionError, match="without tables"):
        own_tables({"label": "topic"})


def test_the_column_of_ids(own: OwnTables) -> None:
    assert own.id_column == "key"
    assert OwnTables.at("nodes.csv", label="label").id_column == "id"
    assert OwnTables.at(edges="edges.csv").id_column is None


def test_the_name_is_never_that_of_a_known_graph() -> None:
    assert OwnTables.at(graph_file="there/texas.npz").name == "own-texas"
    assert OwnTables.at(graph_file="there/web.graphml.gz").name == "web"


def test_a_graph_file_says_whether_edges_have_a_direction(tmp_path: Path) -> None:
    network = networkx.DiGraph([("a", "b"), ("b", "c")])
    networkx.set_node_attributes(network, {"a": "x", "b": "y", "c": "x"}, "kind")
    for name, written in {"one-way": network, "both": network.to_undirected()}.items():
        networkx.write_graphml(written, tmp_path / f"{name}.graphml")
    directed = [
        OwnTables.at(graph_file=tmp_path / f"{name}.graphml", label="kind", directed=given).read().graph.directed
        for name, given in (("one-way", False), ("both", False), ("both", True))
    ]
    assert directed == [True, False, True]


def test_new_tables_are_read_by_the_roles_of_the_old_ones(own: OwnTables) -> None:
    """In the new files alone other columns would be ids and ends."""
    found = own.read()
    assert isinstance(found.encoder, FeatureEncoder)
    Path("more.csv").write_text("id,key,size\n4,d,9\n")
    Path("links.csv").write_text("from,weight,to,target,source\nx,1,y,a,d\n")
    with_new = own.read_with("more.csv", "links.csv", found.encoder, found.graph.class_names).graph
    assert list(with_new.node_names or ()) == ["b", "a", "c", "d"]
    assert with_new.edge_index[:, -1].tolist() == [3, 1]
    Path("links.csv").write_text("source,target\nd,a\n")
    with pytest.raises(DataError, match="has no column 'weight' for the weight, as in training"):
        own.read_with("more.csv", "links.csv", found.encoder, found.graph.class_names)


def test_tables_that_training_did_not_have(own: OwnTables) -> None:
    alone = OwnTables.at("nodes.csv", label="label", id="key")
    found = alone.read()
    assert found.encoder is not None
    with pytest.raises(DataError, match="trained without a table of edges"):
        alone.read_with(None, "edges.csv", found.encoder, found.graph.class_names)


def test_new_tables_are_read_with_the_choice_of_columns(own: OwnTables) -> None:
    """The column `key` would be the id if it had not been given a kind."""
    chosen = replace(own, id=None, edges=None, drop=("size",), kind={"key": "category"})
    found = chosen.read()
    assert [(row["column"], row["kind"]) for row in found.columns] == [
        ("key", "category"),
        ("id", "ids"),
        ("size", "dropped"),
        ("label", "labels"),
    ]
    assert chosen.id_column == "id"
    assert found.encoder is not None
    Path("more.csv").write_text("id,key\n4,b\n")
    with_new = chosen.read_with("more.csv", None, found.encoder, found.graph.class_names).graph
    assert list(with_new.node_names or ()) == ["1", "2", "3", "4"]
    assert with_new.x[3].tolist() == with_new.x[0].tolist()


def test_folders_of_another_version(own: OwnTables) -> None:
    encoder = own.read().encoder
    assert encoder is not None
    own.read_again(Path("X"), encoder.model_dump())
    with pytest.raises(DataError, match="made by another version of nlgnn"):
        own.read_again(Path("X"), {**encoder.model_dump(), "format_version": 1})


def test_files_that_are_gone(own: OwnTables) -> None:
    own.read_again(Path("X"))
    Path("nodes.csv").unlink()
    with pytest.raises(DataError, match=r"^X was trained on .*nodes\.csv, which is not there any more"):
        own.read_again(Path("X"))
