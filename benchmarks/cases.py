"""Cases of the benchmark with their goals, and the folder that keeps one JSON file per case."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks import deep, scale, shallow, steps, trainings, waits, whole_command
from benchmarks.peers import PYG_CSR, PYG_SPARSE
from benchmarks.roofline import measure_roofline
from benchmarks.scale import BOTH, BY_STRUCTURE, LEARNED, NODES, STRUCTURE, Job
from benchmarks.steps import QUICK, SHORT, Effort, Problem
from benchmarks.timing import LARGE_GRAPH_THREADS, cores_of_others, environment, is_quiet, measure_machine, usage
from nlgnn.errors import DataError, NlgnnError, OptionError, nearest
from nlgnn.files import write_whole


class Goal(NamedTuple):
    bound: Literal["at least", "at most"]
    value: float
    unit: Literal["×", "GiB", "s"] = "×"

    def reached(self, value: float) -> bool:
        return value >= self.value if self.bound == "at least" else value <= self.value


@dataclass(frozen=True)
class Case:
    """A case of the benchmark, with one file of results.

    Args:
        name: The name of the file, and of the case on the command line.
        what: What is measured, in words.
        on: The graph.
        measure: Returns the result.
        goal: The goal of the ratio, of the peak memory or of the mean seconds.
        against: What a figure without a peer is compared with.
        peer: The peer without which a goal cannot be reached, because others are weaker.
        large: True if the case is measured only on request.
    """

    name: str
    what: str
    on: str
    measure: Callable[[], dict[str, Any]]
    goal: Goal | None = None
    against: str = ""
    peer: str = ""
    large: bool = False


STEP_GOALS = {"texas": 2.5, "actor": 8, "chameleon": 8, "squirrel": 12, "pubmed": 5}
TEN_SPLITS_GOALS = {"texas": 6, "actor": 10, "chameleon": 9, "squirrel": 13, "pubmed": 6}
GAT_GOALS = {"chameleon": 8, "squirrel": 8, "pubmed": 8}
DEEP_GOALS = {"minesweeper": 2, "tolokers": 4}
DEEP_LAYERS = {"gcn": {"minesweeper": 12, "tolokers": 4}, "sage": {"minesweeper": 8, "tolokers": 4}}
PRODUCTS_GOAL = Goal("at most", 1.3)
OVERHEAD_GOAL = Goal("at most", 1.2)  # from LARGE on
LARGE = 20_000
SHALLOW = {
    "table-tolokers": (shallow.TABLE, Goal("at most", 3, "s")),
    "trees-tolokers": (shallow.TREES, Goal("at most", 2, "s")),
    "kernel-squirrel": (shallow.KERNEL, Goal("at most", 2, "s")),
}
COMMAND_GOAL = 6
SEARCH_GOAL = Goal("at least", 3)
GROWTH_GOAL = Goal("at most", 2.5)
MEMORY_GOALS = {"NLGCN": 9, "NLGCN, features on disk": 5, "NLGAT": 20, STRUCTURE: 12}
STRUCTURE_GOAL = Goal("at most", 5)
GROWTH_FROM = 100_000

PAPER_GRAPHS = ("chameleon", "squirrel")
SIZES = (10_000, 30_000, GROWTH_FROM, 300_000, 1_000_000, NODES)
SIZES_OF = {
    "NLGCN": SIZES,
    "GCN": SIZES,
    "NLMLP": SIZES,
    "NLGAT": (10_000, GROWTH_FROM, 1_000_000, NODES),
    "O(n²) attention": SIZES[:3],
    LEARNED: (10_000, GROWTH_FROM, 1_000_000),
    STRUCTURE: (10_000, GROWTH_FROM, 300_000, 1_000_000, NODES),
    scale.DEEP: (10_000, GROWTH_FROM, 1_000_000),
    "trees": (10_000, 30_000, GROWTH_FROM),
    "kernel": (30_000, GROWTH_FROM, 300_000),  # with landmarks
}
SLOW = ("NLGAT", "O(n²) attention")


def all_cases() -> list[Case]:
    """Return the cases of the benchmark."""
    return [*_small_cases(Effort()), *_large_cases()]


def short_cases() -> list[Case]:
    """Return the cases that compare with a peer, measured briefly; on a quiet machine they take five minutes."""
    return [case for case in _small_cases(SHORT) if case.name.startswith(SHORT_NAMES)]


def quick_cases() -> list[Case]:
    """Return the same cases on the packaged graph and two small generated ones, to try them out."""
    graph = "mushroom-body"
    return [
        Case("machine-1", "machine", "", partial(measure_machine, 1, 8, 256, 3)),
        Case(f"step-{graph}", STEP, graph, partial(steps.measure_nlgcn, graph, QUICK)),
        Case(f"splits-{graph}", SPLITS, graph, partial(trainings.measure_ten_splits, graph, QUICK)),
        Case(f"gat-{graph}", GAT, graph, partial(steps.measure_gat, graph, QUICK)),
        Case(f"deep-{graph}", DEEP, graph, partial(deep.measure_deep, graph, 8, QUICK)),
        Case(
            f"products-sage-{graph}",
            DEEP_PRODUCTS.format("SAGE", 4),
            graph,
            partial(deep.measure_products, graph, "sage", 4, QUICK),
            PRODUCTS_GOAL,
        ),
        *(
            Case(
                f"shallow-{what.split()[0].rstrip(',')}-{graph}",
                what,
                graph,
                partial(shallow.measure_shallow, graph, what, 1),
            )
            for what in (shallow.TABLE, shallow.TREES, shallow.KERNEL)
        ),
        Case(
            f"shallow-ridge-{graph}",
            "kernel compared with KernelRidge alone",
            graph,
            partial(shallow.measure_kernel, graph, QUICK),
        ),
        Case(
            "wait-read-1500",
            READ,
            as_size(1500),
            partial(waits.measure_wait, waits.Wait(partial(waits.tables, 1500), 1)),
        ),
        Case(f"roofline-{graph}", ROOFLINE, graph, partial(_roofline, partial(Problem.named, graph), None)),
        Case(f"overhead-{graph}", OVERHEAD, graph, partial(steps.measure_overhead, graph, QUICK)),
        Case(f"search-{graph}", SEARCH, graph, partial(trainings.measure_search, graph, QUICK), SEARCH_GOAL),
        Case(f"systems-{graph}", EVERY_SYSTEM, graph, partial(steps.measure_systems, graph, QUICK)),
        _both_case(1_000, 5),
        *(_scale_case("NLGCN", nodes, 3) for nodes in (1_000, 3_000)),
    ]


SHORT_NAMES = ("machine-1", "step-", "gat-", "deep-", "shallow-", "overhead-", "splits-texas", "splits-chameleon")
SHORT_MINUTES = 9  # after which the short form begins no case
STEP = "NLGCN, one training step"
SPLITS = "NLGCN, ten splits × 200 epochs"
GAT = "GAT 8 × 48, one training step"
OVERHEAD = "NLGCN compared with GCN, one training step"
BY_STRUCTURE_STEP = "NLGCN, order by structure compared with order by score, one training step"
DEEP = "deep residual GCN, 8 × 64, batch norm, one training step"
DEEP_PRODUCTS = "deep residual {}, {} × 64, batch norm, one training step compared with its products"
COMMAND = "whole command: NLGCN, ten splits × 200 epochs"
SEARCH = "NLMLP, search of 36 settings × 10 splits × 200 epochs"
THREADS = "NLGCN, one training step, more threads than one"
ROOFLINE = "roofline: products of a training step"
READ = "reading of two CSV tables"
WAITS = {  # CPU seconds
    "typo": (
        "nlgnn trian: a misspelt command is answered",
        "",
        waits.Wait(waits.typo, code=2),
        Goal("at most", 1, "s"),
    ),
    "training": ("nlgnn train until training begins", "texas", waits.Wait(waits.training), Goal("at most", 3, "s")),
    "report": (
        "nlgnn report of NLGCN, imports included",
        "minesweeper",
        waits.Wait(partial(waits.report, "minesweeper")),
        Goal("at most", 1.5, "s"),
    ),
    "tables": ("nlgnn reproduce --table", "", waits.Wait(waits.reproduced_tables, 3), None),
}
POLICY = "NLGCN, an epoch on several threads that wait with a short spin"
EVERY_SYSTEM = "every local and compared system, one training step"


def _small_cases(effort: Effort) -> Iterator[Case]:
    for threads in sorted({1, LARGE_GRAPH_THREADS}):
        yield Case(f"machine-{threads}", "machine", "", partial(measure_machine, threads, 256, 2048, 10))
    for graph, goal in STEP_GOALS.items():
        yield _peer_case(f"step-{graph}", STEP, graph, partial(steps.measure_nlgcn, graph, effort), goal)
    for graph, goal in GAT_GOALS.items():
        yield _peer_case(f"gat-{graph}", GAT, graph, partial(steps.measure_gat, graph, effort), goal)
    for graph, goal in DEEP_GOALS.items():
        yield _peer_case(f"deep-{graph}", DEEP, graph, partial(deep.measure_deep, graph, 8, effort), goal)
    for system, graphs in DEEP_LAYERS.items():
        for graph, layers in graphs.items():
            what = DEEP_PRODUCTS.format(system.upper(), layers)
            measure = partial(deep.measure_products, graph, system, layers, effort)
            yield Case(f"products-{system}-{graph}", what, graph, measure, PRODUCTS_GOAL)
    for name, (what, most_seconds) in SHALLOW.items():
        graph = name.partition("-")[2]
        yield Case(f"shallow-{name}", what, graph, partial(shallow.measure_shallow, graph, what, 10), most_seconds)
    measure = partial(shallow.measure_trees, "tolokers", effort)
    yield Case("shallow-lightgbm-tolokers", "trees compared with LightGBM alone, one split", "tolokers", measure)
    measure = partial(shallow.measure_kernel, "squirrel", effort)
    yield Case("shallow-ridge-squirrel", "kernel compared with KernelRidge alone, one split", "squirrel", measure)
    for name, (what, on, wait, most) in WAITS.items():
        yield Case(f"wait-{name}", what, on, partial(waits.measure_wait, wait), most)
    for graph, depth in (("texas", None), ("squirrel", None), ("tolokers", 8)):
        measure = partial(_roofline, partial(Problem.named, graph), depth)
        yield Case(f"roofline-{graph}", ROOFLINE, graph, measure)
    for graph in STEP_GOALS:
        yield Case(f"overhead-{graph}", OVERHEAD, graph, partial(steps.measure_overhead, graph, effort))
    yield _both_case(LARGE, 20)
    for graph, goal in TEN_SPLITS_GOALS.items():
        measure = partial(trainings.measure_ten_splits, graph, effort)
        yield _peer_case(f"splits-{graph}", SPLITS, graph, measure, goal)
    for graph in PAPER_GRAPHS:  # dropout takes the second forward that ours saves without
        measure = partial(trainings.measure_ten_splits, graph, effort, dropout=0.5)
        yield Case(f"splits-dropout-{graph}", f"{SPLITS}, dropout 0.5", graph, measure)
    for report in (True, False):
        measure = partial(whole_command.measure_command, "chameleon", effort, report)
        name = "command-chameleon" if report else "command-chameleon-without-report"
        yield _peer_case(name, COMMAND if report else f"{COMMAND} without report", "chameleon", measure, COMMAND_GOAL)
    yield Case("search-texas", SEARCH, "texas", partial(trainings.measure_search, "texas", effort), SEARCH_GOAL)
    for graph in ("texas", "squirrel", "pubmed"):
        measure = partial(steps.measure_threads, partial(Problem.named, graph), effort)
        yield Case(f"threads-{graph}", THREADS, graph, measure)
    for nodes in (10_000, 30_000, 100_000):
        measure = partial(steps.measure_threads, partial(scale.made_problem, nodes), effort)
        yield Case(f"threads-{nodes}", THREADS, as_size(nodes), measure)
    for nodes in (10_000, 100_000):
        measure = partial(scale.measure_policies, Job("NLGCN", nodes, 20), 3)
        yield Case(f"threads-policy-{nodes}", POLICY, as_size(nodes), measure)
    for graph in PAPER_GRAPHS:
        yield Case(f"systems-{graph}", EVERY_SYSTEM, graph, partial(steps.measure_systems, graph, effort))


def _roofline(make: Callable[[], Problem], layers: int | None) -> dict[str, Any]:
    return measure_roofline(make(), layers)


def _peer_case(name: str, what: str, graph: str, measure: Callable[[], dict[str, Any]], goal: float) -> Case:
    peer = PYG_CSR if what == DEEP else PYG_SPARSE  # features of deep models are dense
    return Case(name, what, graph, measure, Goal("at least", goal), peer=peer)


def _large_cases() -> Iterator[Case]:
    for system, sizes in SIZES_OF.items():
        for nodes in sizes:
            yield _scale_case(system, nodes, 1 if system in SLOW else max(3, min(30, 1_000_000 // nodes)))
    yield _scale_case("NLGCN", NODES, 3, on_disk=True)
    for nodes in (GROWTH_FROM, NODES):
        yield _both_case(nodes, 5)
    measure = partial(_roofline, partial(scale.made_problem, NODES), None)
    yield Case(f"roofline-{NODES}", ROOFLINE, as_size(NODES), measure, large=True)
    for nodes in (GROWTH_FROM, 3_000_000):
        measure = partial(waits.measure_wait, waits.Wait(partial(waits.tables, nodes), 1))
        yield Case(f"wait-read-{nodes}", READ, as_size(nodes), measure, large=True)
    for nodes in (300_000, NODES):
        measure = partial(scale.measure, Job(BY_STRUCTURE, nodes, 5))
        yield Case(f"structure-{nodes}", BY_STRUCTURE_STEP, as_size(nodes), measure, STRUCTURE_GOAL, large=True)


def _scale_case(system: str, nodes: int, epochs: int, on_disk: bool = False) -> Case:
    label = f"{system}, features on disk" if on_disk else system
    slug = system.split()[-1].lower() + ("-disk" if on_disk else "")
    limit = MEMORY_GOALS.get(label) if nodes == NODES else None
    return Case(
        name=f"scale-{slug}-{nodes}",
        what=f"{label}, time and peak memory",
        on=as_size(nodes),
        measure=partial(scale.measure, Job(system, nodes, epochs, on_disk)),
        goal=None if limit is None else Goal("at most", limit, "GiB"),
        against="paper: out of memory" if system == "NLGAT" else "paper: a 48 GB GPU",
        large=True,
    )


def _both_case(nodes: int, rounds: int) -> Case:
    measure = partial(scale.measure, Job(BOTH, nodes, rounds))
    goal = OVERHEAD_GOAL if nodes >= LARGE else None
    return Case(f"overhead-{nodes}", OVERHEAD, as_size(nodes), measure, goal, large=nodes > LARGE)


def as_size(nodes: int) -> str:
    return f"{nodes / 1e6:.1f} M nodes" if nodes >= 1e6 else f"{nodes:,} nodes"


def choose_cases(names: list[str], large: bool, cases: list[Case]) -> list[Case]:
    """Return the cases whose names begin as given. Without names all are returned, large ones only on request."""
    for name in names:
        if not any(case.name.startswith(name) for case in cases):
            raise OptionError(f"no case begins with {name!r}.", nearest(name, [case.name for case in cases]))
    if names:
        return [case for case in cases if case.name.startswith(tuple(names))]
    return [case for case in cases if large or not case.large]


class KeptResultError(NlgnnError):
    """A result was not written, because one of a quiet machine is there.

    Attributes:
        result: The result that was measured.
    """

    def __init__(self, what: str, how: str, result: dict[str, Any]) -> None:
        super().__init__(what, how)
        self.result = result


def run_case(case: Case, folder: Path) -> dict[str, Any]:
    """Measure a case, replace its file and return the result.

    Raises:
        KeptResultError: If the file holds a result of a quiet machine with the same sides, and this one was busy.
    """
    path = folder / f"{case.name}.json"
    with saying_where(path):  # before the minutes that measuring takes
        folder.mkdir(parents=True, exist_ok=True)
    before = read_results([case], folder).get(case.name)
    started, about = usage(), environment()
    result = {"case": case.name, **about, **case.measure()}
    result["cores of others"] = cores_of_others(started, usage())
    if before is not None and is_quiet(before) and not is_quiet(result) and _sides(result) <= _sides(before):
        raise KeptResultError(
            f"{path.name} keeps its result of {before['date'][:10]}: the machine was quiet then, and other processes "
            f"used {result['cores of others']} cores now.",
            "Measure again on a quiet machine, or into another folder (--out).",
            result,
        )
    with saying_where(path):
        write_whole(path, partial(Path.write_text, data=json.dumps(result, indent=1, ensure_ascii=False) + "\n"))
    return result


def _sides(result: dict[str, Any]) -> set[str]:
    return set(result.get("seconds", result.get("rates", ())))


@contextmanager
def saying_where(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror or error}.", "Make room or name another folder (--out)."
        ) from error


def read_results(cases: Iterable[Case], folder: Path) -> dict[str, dict[str, Any]]:
    """Return the results measured so far by name."""
    results = {}
    for case in cases:
        path = folder / f"{case.name}.json"
        if path.exists():
            try:
                results[case.name] = json.loads(path.read_text())
            except (OSError, ValueError) as error:
                raise DataError(
                    f"{path} cannot be read: {error}.", f"Measure it again: python -m benchmarks {case.name}"
                ) from None
    return results
