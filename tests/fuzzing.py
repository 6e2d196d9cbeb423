"""Fuzzing: random inputs of every format are read in this process, within limits of time and memory per case."""

from __future__ import annotations

import io
import logging
import re
import resource
import signal
import sqlite3
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from mutations import (
    ODD_CELLS,
    ODD_NUMBERS,
    as_csv,
    as_graphml,
    as_json_lines,
    as_parquet,
    change_folder,
    changed,
    copied,
    damage,
    links,
    npz,
    table,
    toml,
)
from nlgnn import NodeClassifier, planted_order_graph
from nlgnn.cli import main as cli
from nlgnn.cli.options import plan_keys, read_config
from nlgnn.errors import NlgnnError
from nlgnn.graph.homophily import node_homophily
from nlgnn.graph.splits import make_splits
from nlgnn.graph.store import GraphStore
from nlgnn.models.build import configure
from nlgnn.tables import FeatureEncoder, TableGraph, read_graph, read_graph_file
from nlgnn.training.decision import decision_of
from nlgnn.training.predict import temperatures_of
from nlgnn.training.train import read_trained

SECONDS, BYTES = 10.0, 2 << 30  # that a case may take
Case = Callable[[Random, Path], None]


class CaseTimeoutError(Exception):
    """A case that takes too long."""


@dataclass
class Tally:
    """The outcomes of the cases of one format."""

    accepted: int = 0
    refused: int = 0
    faults: list[str] = field(default_factory=list)  # seeds with the last line of the traceback
    slow: list[str] = field(default_factory=list)
    large: list[str] = field(default_factory=list)
    seconds: float = 0.0
    longest: float = 0.0

    @property
    def cases(self) -> int:
        """The number of cases."""
        return self.accepted + self.refused + len(self.faults) + len(self.slow)


def check_graph(found: TableGraph) -> None:
    """Use a graph that was read, and its encoder, as training does."""
    graph = found.graph
    if found.encoder is not None:
        assert FeatureEncoder.from_json(found.encoder.to_json()) == found.encoder
    assert np.isfinite(graph.x.data if hasattr(graph.x, "indptr") else graph.x).all()
    if graph.labelled.any() and graph.num_edges:
        node_homophily(graph)
    make_splits(graph, "random-60", 1)
    assert len(graph.fingerprint) > 8


def case_of_tables(ending: str, write: Callable[[Random, list[dict[str, Any]]], bytes], odd: list[Any]) -> Case:
    """Return the case of two tables in a format."""

    def case(draw: Random, folder: Path) -> None:
        rows = table(draw)
        edges = links(draw, rows)
        given: dict[str, Any] = {}
        for name, content in {"nodes": rows, "edges": edges}.items():
            odd_share = 1.0 if name == "nodes" else 0.4
            shown = changed(draw, content, odd) if draw.random() < odd_share else content
            path = folder / f"{name}{ending}"
            path.write_bytes(damage(draw, write(draw, shown)))
            given[name] = path
        if draw.random() < 0.3:
            del given["edges"]
        check_graph(read_graph(**given, label="label", unknown_nodes=draw.choice(["error", "drop", "add"])))

    return case


def case_of_graphml(draw: Random, folder: Path) -> None:
    rows = table(draw)
    edges = links(draw, rows)
    path = folder / "graph.graphml"
    path.write_bytes(damage(draw, as_graphml(draw, changed(draw, rows, ODD_CELLS), edges)))
    check_graph(read_graph_file(path, label="label"))


def case_of_npz(draw: Random, folder: Path) -> None:
    path = folder / "graph.npz"
    path.write_bytes(damage(draw, npz(draw)))
    check_graph(read_graph_file(path))


def case_of_toml(draw: Random, folder: Path) -> None:
    path = folder / "options.toml"
    path.write_bytes(damage(draw, toml(draw), 0.08))
    keys = plan_keys("train")
    given = read_config(path, keys)
    plan = {name: given.pop(name) for name in keys if name in given}
    graph = planted_order_graph(40)
    make_splits(graph, "random-60", plan.get("runs"))
    factory, _ = configure(plan.get("model", "mlp"), graph, plan.get("preset"), **given)
    factory()


def run_command(*arguments: object) -> None:
    """Run a command of the command line; raise an `NlgnnError` if it refuses its input."""
    shown = io.StringIO()
    with redirect_stdout(shown), redirect_stderr(shown):
        try:
            cli.main([*map(str, arguments), "--debug"])
        except SystemExit as ended:
            if ended.code:
                raise NlgnnError("refused") from ended


class Samples:
    """Valid folders that cases change, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        draw = Random(0)
        rows = table(draw)
        (folder / "nodes.csv").write_bytes(as_csv(draw, rows, ","))
        (folder / "edges.csv").write_bytes(as_csv(draw, links(draw, rows), ","))
        tables = ["--nodes", folder / "nodes.csv", "--edges", folder / "edges.csv", "--label", "label"]
        short = ["--runs", "2", "--epochs", "2"]
        self.runs = []
        for model in ("mlp", "nlgcn", "logistic"):
            options = short if model != "logistic" else short[:2]
            run_command("train", *tables, "--model", model, *options, "--out", folder / model)
            self.runs.append(folder / model)
        self.graph = planted_order_graph(60)
        classifier = NodeClassifier("mlp", n_runs=2, options={"epochs": 2}).fit(self.graph)
        classifier.save(folder / "model")
        GraphStore.write(self.graph, folder / "store")
        self.study = folder / "study.db"
        self.tune(self.study)

    def tune(self, study: Path) -> None:
        """Run or continue a search of two settings."""
        options = ["--model", "mlp", "--hidden", "4,8", "--dropout", "0.5", "--lr", "0.01", "--weight-decay", "0"]
        size = ["--settings", "all", "--search-splits", "1", "--search-epochs", "2"]
        run_command("tune", "mushroom-body", *options, *size, "--study", study)

    def case_of_runs(self, draw: Random, folder: Path) -> None:
        path = copied(draw.choice(self.runs), folder / "run")
        change_folder(draw, path)
        trained, graph = read_trained(path)
        probabilities = trained.probabilities(graph)
        decision = decision_of(
            trained, graph, probabilities, temperatures_of(trained, graph, probabilities), None, None
        )
        decision.labels(probabilities)

    def case_of_models(self, draw: Random, folder: Path) -> None:
        path = copied(self.folder / "model", folder / "model")
        change_folder(draw, path)
        NodeClassifier.load(path, self.graph).predict_proba()

    def case_of_stores(self, draw: Random, folder: Path) -> None:
        path = copied(self.folder / "store", folder / "store")
        change_folder(draw, path)
        store = GraphStore.open(path)
        store.verify()
        node_homophily(store.to_graph())

    def case_of_studies(self, draw: Random, folder: Path) -> None:
        path = folder / "study.db"
        path.write_bytes(self.study.read_bytes())
        if draw.random() < 0.3:
            path.write_bytes(damage(draw, path.read_bytes(), 1.0))
        else:
            with closing(sqlite3.connect(path)) as connection:
                change_database(draw, connection)
        self.tune(path)


def change_database(draw: Random, connection: sqlite3.Connection) -> None:
    """Change a cell, or remove a row or a table."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    name = draw.choice(tables)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
    row = f"rowid = (SELECT rowid FROM {name} ORDER BY random() LIMIT 1)"
    kind = draw.random()
    try:
        if kind < 0.4:
            connection.execute(f"INSERT INTO {name} SELECT * FROM {name} WHERE 1 = 0")  # no change
        elif kind < 0.8:
            value = draw.choice([None, 0, -1, 10**12, "x", "{", "null", '{"a": 1}', *ODD_NUMBERS[5:]])
            connection.execute(f'UPDATE {name} SET "{draw.choice(columns)}" = ? WHERE {row}', (value,))
        elif kind < 0.95:
            connection.execute(f"DELETE FROM {name} WHERE {row}")
        else:
            connection.execute(f"DROP TABLE {name}")
        connection.commit()
    except sqlite3.Error:  # a change that the database itself refuses
        connection.rollback()


def cases(folder: Path) -> dict[str, Case]:
    """Return the case of each format."""
    samples = Samples(folder)
    return {
        "CSV": case_of_tables(".csv", lambda draw, rows: as_csv(draw, rows, draw.choice(",;")), ODD_CELLS),
        "TSV": case_of_tables(".tsv", lambda draw, rows: as_csv(draw, rows, "\t"), ODD_CELLS),
        "JSON lines": case_of_tables(".jsonl", as_json_lines, [*ODD_CELLS, *ODD_NUMBERS, None, True]),
        "Parquet": case_of_tables(".parquet", as_parquet, [*ODD_CELLS, None]),
        "GraphML": case_of_graphml,
        "NPZ": case_of_npz,
        "TOML": case_of_toml,
        "run folders": samples.case_of_runs,
        "model folders": samples.case_of_models,
        "stores": samples.case_of_stores,
        "studies": samples.case_of_studies,
    }


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise a `CaseTimeoutError` in this thread after some seconds of processor time.

    The time of other processes on a loaded machine does not count. Ten times as many seconds of the clock do.
    """

    def end(*_: object) -> None:
        raise CaseTimeoutError

    before = [signal.signal(number, end) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(number, handler)


def run_case(case: Case, format_name: str, seed: int, folder: Path, tally: Tally) -> None:
    """Run one case and note its outcome."""
    label, before = f"{format_name}:{seed}", peak_bytes(reset=True)
    started = time.process_time()
    try:
        with time_limit(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case(Random(f"{format_name} {seed}"), folder)
        tally.accepted += 1
    except NlgnnError:
        tally.refused += 1
    except CaseTimeoutError:
        tally.slow.append(label)
    except (Exception, BaseException) as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = re.sub(r"\s+", " ", str(error))[:120]
        tally.faults.append(f"{label} {type(error).__name__}: {what} ({Path(place.filename).name}:{place.lineno})")
    used = time.process_time() - started
    tally.seconds += used
    tally.longest = max(tally.longest, used)
    if peak_bytes() - before > BYTES:
        tally.large.append(label)


def peak_bytes(reset: bool = False) -> int:
    """Return the largest resident memory of this process, since the last reset where the system can."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) * 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fuzz(
    count: int, folder: Path, first: int = 0, only: str | None = None, stop_at: float | None = None
) -> dict[str, Tally]:
    """Run a number of cases, spread over all formats.

    Args:
        count: The number of cases.
        folder: An empty folder.
        first: The first seed.
        only: A single format, to repeat a case.
        stop_at: The time of `time.monotonic` at which it ends.
    """
    logging.disable(logging.ERROR)
    (folder / "samples").mkdir()
    (folder / "case").mkdir()
    of_format = {name: case for name, case in cases(folder / "samples").items() if only in (None, name)}
    tallies = {name: Tally() for name in of_format}
    names = list(of_format)
    for number in range(count):
        name = names[number % len(names)]
        run_case(of_format[name], name, first + number // len(names), folder / "case", tallies[name])
        if stop_at is not None and time.monotonic() > stop_at:
            break
    logging.disable(logging.NOTSET)
    return tallies
