"""`nlgnn store`: write tables of any size, or a named graph, as a graph store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nlgnn.cli.console import column_table, console, errors
from nlgnn.cli.options import FLAGS, ROLES, given_flags, with_flags
from nlgnn.errors import OptionError
from nlgnn.files import refuse_existing, writing
from nlgnn.training.progress import ProgressBar

NEITHER = (
    "Give tables: nlgnn store --nodes n.parquet --edges e.parquet --label y out. Or a graph: nlgnn store texas out."
)


def store(**flags: Any) -> None:
    """Write a graph store, a folder of arrays.

    Each of several processes reads its own part of a store. Tables may be larger than memory. Their columns become
    features as in training.
    """
    given = given_flags(flags)
    places = given.pop("places", [])
    tables = given.keys() - {"memory", "renumber"}
    wanted = 1 if tables else 2
    if len(places) != wanted:
        what = "the new folder alone is named" if tables else "a graph and the new folder are named"
        raise OptionError(f"{len(places)} names are given, but with{'out' * (not tables)} tables {what}.", NEITHER)
    out = Path(places[-1])
    refuse_existing(out)
    memory = _memory(given.pop("memory", None))
    renumber = given.pop("renumber", False)
    with writing(out):
        if tables:
            _store_tables(given, out, memory, renumber)
        else:
            _store_graph(places[0], out, renumber)


def _memory(text: str | None) -> int:
    """Return the limit of memory: by default half of this machine's."""
    from nlgnn.limits import parse_size
    from nlgnn.tables.table_files import memory_bytes

    if text is None:
        return memory_bytes() // 2
    try:
        return parse_size(text)
    except ValueError as error:
        raise OptionError(f"memory={text} {error}.", "Write --memory 4GiB.") from None


def _store_graph(name: str, out: Path, renumber: bool) -> None:
    from nlgnn.cli.given_graph import describe_graph
    from nlgnn.datasets import load_graph
    from nlgnn.graph.store import GraphStore

    if renumber:
        raise OptionError("--renumber is for tables.", "Leave it out: named graphs keep their numbers.")
    graph = load_graph(describe_graph("store", name).name)
    _show(GraphStore.write(graph, out))


def _store_tables(given: dict[str, Any], out: Path, memory: int, renumber: bool) -> None:
    from nlgnn.cli.given_graph import check_label, check_protocol_of_columns
    from nlgnn.tables.column_choice import parsed_kinds
    from nlgnn.tables.store_builder import TableColumns, build_store

    nodes, edges = given.pop("nodes", None), given.pop("edges", None)
    if nodes is None:
        raise OptionError("There is no table of nodes.", NEITHER)
    check_label(given)
    check_protocol_of_columns(given, None)
    roles: dict[str, Any] = {ROLES[name]: value for name, value in given.items() if name != "kind"}
    columns = TableColumns(**roles, kind=parsed_kinds(given.get("kind", ())))
    with _StoreProgress() as progress:
        built = build_store(nodes, edges, out, columns, memory=memory, renumber=renumber, tell=progress.tell)
    for sentence in built.notes:
        errors.print(sentence, soft_wrap=True, markup=False)
    errors.print(column_table(built.columns))
    for sentence in built.warnings:
        errors.print(f"warning: {sentence}", soft_wrap=True, markup=False)
    _show(built.store)


def _show(found: Any) -> None:
    size = sum(path.stat().st_size for path in found.folder.iterdir())
    console.print(
        f"{found.nodes:,} nodes, {found.edges:,} entries, {found.features:,} features, {len(found.classes)} classes, "
        f"{size / 1e9:.2f} GB: {found.folder}",
        soft_wrap=True,
        markup=False,
    )


class _StoreProgress(ProgressBar):
    """The progress of the current step."""

    def __init__(self) -> None:
        super().__init__(100, enabled=True)

    def tell(self, words: str, share: float) -> None:
        """Show a step and its share that is done."""
        if self.is_due():
            self.show(int(100 * share), words, f"{words}: {share:.0%}")


with_flags(store, FLAGS["store"])
