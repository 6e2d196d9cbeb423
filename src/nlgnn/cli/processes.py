"""`nlgnn train` in several processes, each with a range of the nodes: the launcher, and what each process does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from nlgnn.cli.console import called, console, errors, result_table, tell_decision
from nlgnn.cli.given_graph import given_graph, names_store
from nlgnn.cli.options import TABLE_FLAGS, read_config
from nlgnn.errors import OptionError
from nlgnn.files import refuse_existing
from nlgnn.graph.store import GraphStore
from nlgnn.models.build import check_given, configure, default_protocol
from nlgnn.models.registry import get_system, load
from nlgnn.nn.base import Model
from nlgnn.nn.kernels.ranks import sharing
from nlgnn.tables.source import OwnTables
from nlgnn.training.decision import check_decision, check_texts, read_decision
from nlgnn.training.device import CORES
from nlgnn.training.processes import (
    FOLDER_KEY,
    SharedRunFolder,
    check_model,
    connected,
    everywhere,
    on_first,
    part_of_graph,
    part_of_store,
)
from nlgnn.training.train import AUTO, Plan, Trained, graph_of, read_plan, resume, train

GRACE_SECONDS = 10.0  # for the other processes to say why they end
NOT_IN_PROCESSES = ("time_budget", "ensemble", "controls", "estimate", "tensorboard", "mlflow", *TABLE_FLAGS)


def launch(processes: int) -> int:
    """Start the called command several times on this machine, and return the exit code.

    Args:
        processes: The number of processes.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)  # as torchrun: it takes a free port
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    shared |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    if sys.platform == "linux":
        shared["GLOO_SOCKET_IFNAME"] = "lo"
    shared["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", str(max(1, CORES // processes)))
    command = [sys.executable, "-m", "nlgnn", *called.get()]
    running = [
        subprocess.Popen(command, env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(processes)
    ]
    with _passing_on_signals(running):
        code = _wait(running)
    del store
    return code


def _wait(running: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait for all processes; if one fails, end the others, and return its exit code."""
    ended: list[int] = []  # by a signal, and not by this function
    while any(process.poll() is None for process in running):
        if any(process.poll() not in (None, 0) for process in running):
            ended = [number for number, process in enumerate(running) if (process.poll() or 0) < 0]
            end = time.monotonic() + GRACE_SECONDS
            while time.monotonic() < end and any(process.poll() is None for process in running):
                time.sleep(0.05)
            for process in running:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            break
        time.sleep(0.05)
    codes = [process.returncode for process in running]
    for number in ended:
        name = signal.Signals(-codes[number]).name
        errors.print(f"process {number} was ended by {name}.", soft_wrap=True, markup=False)
    return 2 if ended else next((code for code in codes if code), 0)


@contextmanager
def _passing_on_signals(running: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Leave Ctrl-C and the end of the terminal to the processes, which get them as well, and pass on SIGTERM."""

    def pass_on(number: int, _: object) -> None:
        for process in running:
            if process.poll() is None:
                process.send_signal(number)

    from_terminal = [signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in dict.fromkeys(from_terminal)}
    before[signal.SIGTERM] = signal.signal(signal.SIGTERM, pass_on)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_request(given: Mapping[str, Any], plan_keys: Mapping[str, Any]) -> None:
    """Raise for mistakes that can be found before any process is started."""
    if "resume" not in given:
        _plan(given, plan_keys)


def train_in_process(given: dict[str, Any], plan_keys: Mapping[str, Any], seconds: int) -> None:
    """Train as one of several processes.

    Args:
        given: The flags that are given.
        plan_keys: The keys of a TOML file that are neither options of a model nor of `Recipe`.
        seconds: How long an exchange may take.
    """
    plan = None if "resume" in given else _plan(given, plan_keys)
    with connected(seconds) as store, _quiet(os.environ["RANK"] != "0"):
        restarted = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
        path = on_first(lambda: _path(given, plan, store, restarted))
        store.set(FOLDER_KEY, str(path))
        try:
            trained = _resume(path) if plan is None or (restarted and path.exists()) else _train(plan, path)
        except KeyboardInterrupt:
            words = "the same number of processes or any other"
            errors.print(f"\ninterrupted. Continue with {words}: nlgnn train --resume {path} --processes N")
            raise
        console.print(result_table([(trained.plan.model, trained)], console.width))
        for run in trained.runs:
            if run.failure:
                errors.print(f"left out of the figures: {run.failure}", soft_wrap=True, markup=False)
        console.print(f"run folder: {path}", soft_wrap=True, markup=False)
        tell_decision(read_decision(path))


@contextmanager
def _quiet(quiet: bool) -> Iterator[None]:
    console.quiet = errors.quiet = quiet
    try:
        yield
    finally:
        console.quiet = errors.quiet = False


def _plan(given: Mapping[str, Any], plan_keys: Mapping[str, Any]) -> Plan:
    """Return the plan, after what can be checked without the graph."""
    given = dict(given)
    given.pop("allow_unverified", None)
    options = read_config(given.pop("config", None), plan_keys) | given
    settings = {name: options.pop(name, None) for name in plan_keys}
    for name in NOT_IN_PROCESSES:
        if settings.get(name) is not None or name in given:
            raise OptionError(
                f"--{name.replace('_', '-')} does not apply to several processes.",
                "Leave it out, or train in one process. Tables are written as a store first: nlgnn store.",
            )
    if settings["graph"] is None:
        raise OptionError("No graph is named.", "Name one, or the folder of a store: nlgnn train FOLDER.")
    model = settings["model"] or "nlgcn"
    if model.lower() == AUTO:
        raise OptionError("auto does not train over several processes.", "Name a model, such as --model nlgcn.")
    model_class = load(get_system(model))
    if not (issubclass(model_class, Model) and model_class.over_ranks):  # a property, if options decide
        check_model(None, model)
    name = settings["graph"]
    tables = OwnTables.at(graph_file=Path(name)) if names_store(name) else None
    graph = tables.name if tables is not None else given_graph("train", name, None, True).name
    check_given(model, graph, settings["preset"], options)
    check_texts(settings["threshold"], settings["cost"])
    decision = {"threshold": settings["threshold"], "cost": settings["cost"]}
    settled = (settings["splits"] or "", settings["runs"], settings["preset"], options, tables)
    return Plan(graph, model, *settled, **decision)


def _path(given: Mapping[str, Any], plan: Plan | None, store: Any, restarted: bool) -> Path:
    """Return the run folder: that of the first attempt after a restart by torchrun."""
    from nlgnn.cli.train import new_name

    if restarted and store.check([FOLDER_KEY]):
        return Path(store.get(FOLDER_KEY).decode())
    if plan is None:
        return Path(given["resume"])
    path = Path(given.get("out") or new_name(plan.graph, plan.model))
    refuse_existing(path)
    return path


def _train(plan: Plan, path: Path) -> Trained:
    part, ranks = _part(plan, path)
    plan = replace(plan, protocol=plan.protocol or default_protocol(part))
    configure(plan.model, part, plan.preset, **plan.options)
    check_decision(part, plan.threshold, plan.cost, plan.options.get("class_weight"))
    with sharing(ranks):
        return train(plan, part, path)


def _resume(path: Path) -> Trained:
    folder = SharedRunFolder.open(path)
    plan = read_plan(folder)
    part, ranks = _part(plan, path)
    with sharing(ranks):
        return resume(folder, part)


def _part(plan: Plan, path: Path) -> Any:
    folder = plan.tables.graph_file if plan.tables is not None else None
    if folder is not None:
        return part_of_store(everywhere(lambda: GraphStore.open(folder)), plan.graph)
    return part_of_graph(lambda: graph_of(plan, path))
