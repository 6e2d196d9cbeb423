"""A process that has imported everything and forks for each command, so that the seconds of importing are paid once.

A command can run as another user, with a limit on the size of files, and it can be killed: after some time, or just
before its n-th change of a file. It can run as several ranks of one training, one of which is killed.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

LONGEST = 120  # seconds that any command may take
# What Python tells before files change (its documentation has a table of audit events), beside opening to write.
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}


class Ended(NamedTuple):
    """How a command ended: its exit code, or minus the signal that killed it; and what it printed.

    `seconds` is how long it took, `changes` how many changes of files it began. Of several ranks, all of this is that
    of the first one, or of the one that is to be killed; `others` are the exit codes of the others.
    """

    code: int
    out: str
    err: str
    seconds: float
    changes: int
    others: tuple[int, ...] = ()


class WarmProcess:
    """Use as a context. Commands run one at a time."""

    def __init__(self, notes: Path, rehearsals: Sequence[Sequence[str]] = ()) -> None:
        """
        Args:
            notes: a folder for what is printed.
            rehearsals: commands that are run first; what they import need not be imported later.
        """
        self.notes = notes
        environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120"}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, notes, json.dumps(rehearsals)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def run(self, *arguments: object, folder: Path, **wishes: Any) -> Ended:
        """Run `nlgnn arguments` in a folder; for `wishes` see `_become_command`, `_wait` and `_run_ranks`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"arguments": [str(argument) for argument in arguments], "folder": str(folder), **wishes}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        code, seconds, *others = json.loads(self.process.stdout.readline())
        out, err = ((self.notes / name).read_text(errors="replace") for name in ("out", "err"))
        return Ended(code, out, err, seconds, (self.notes / "changes").stat().st_size, tuple(others))


def _serve(notes: Path, rehearsals: Sequence[list[str]]) -> None:
    from nlgnn.cli import main as cli

    cli.build_app(["train", "--help"])
    cli.build_app(["tune", "--help"])
    (notes / "rehearsal").mkdir()
    for arguments in rehearsals:
        _run({"arguments": arguments, "folder": notes / "rehearsal", "modules": notes / "modules"}, notes)
        for name in (notes / "modules").read_text().splitlines():
            with suppress(ImportError):  # some modules are no files
                importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line), notes)), flush=True)


def _run(request: dict[str, Any], notes: Path) -> tuple[Any, ...]:
    if "ranks" in request:
        return _run_ranks(notes, **request)
    started = time.monotonic()
    child = _fork(request, notes)
    return _wait(child, request.get("kill_after", LONGEST)), time.monotonic() - started


def _run_ranks(notes: Path, ranks: int, killed_rank: int = 0, **request: Any) -> tuple[Any, ...]:
    """Run a command in several processes, of which one is killed at the given moment.

    Args:
        notes: where output goes.
        ranks: how many.
        killed_rank: the one.
        request: as for one process.
    """
    started = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    shared = {
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    moment = {name: request.pop(name) for name in ("kill_after", "kill_before_change") if name in request}
    children = []
    for rank in range(ranks):
        place = notes if rank == killed_rank else notes / f"rank-{rank}"
        place.mkdir(exist_ok=True)
        wishes = request | (moment if rank == killed_rank else {})
        children.append(_fork({**wishes, "environment": {**shared, "RANK": str(rank), "LOCAL_RANK": "0"}}, place))
    watched = children.pop(killed_rank)
    code = _wait(watched, moment.get("kill_after", LONGEST))
    seconds = time.monotonic() - started
    return code, seconds, *(_wait(child, LONGEST) for child in children)


def _fork(request: dict[str, Any], notes: Path) -> int:
    child = os.fork()
    if child == 0:
        code = 70
        try:
            code = _become_command(notes=notes, **request)
        finally:
            os._exit(code)
    return child


def _wait(child: int, kill_after: float) -> int:
    deadline = time.monotonic() + kill_after
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            deadline = float("inf")
        time.sleep(0.001)


def _become_command(
    notes: Path,
    arguments: list[str],
    folder: str,
    user: int | None = None,
    file_limit: int | None = None,
    kill_before_change: int | None = None,
    kill_after: float | None = None,
    constants: dict[str, Any] | None = None,
    printed_to: str | None = None,
    modules: Path | None = None,
    environment: dict[str, str] | None = None,
) -> int:
    """Run a command as users do, and return its exit code.

    Args:
        notes: where output goes.
        arguments: of the command.
        folder: where it runs.
        user: whom it runs as.
        file_limit: bytes that a file may have.
        kill_before_change: the change of a file before which it is killed.
        kill_after: for the process that waits.
        constants: module-level ones to be set, by module and name: "nlgnn.tuning.tune:BATCH".
        printed_to: where standard output goes; by default to the notes.
        modules: a file for the names of all modules that it has imported.
        environment: further variables.
    """
    os.chdir(folder)
    os.environ.update(environment or {})
    (notes / "out").write_bytes(b"")
    for number, file in ((1, printed_to or notes / "out"), (2, notes / "err")):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    _count_changes(os.open(notes / "changes", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), kill_before_change)
    for place, value in (constants or {}).items():
        module, _, name = place.partition(":")
        setattr(importlib.import_module(module), name, value)
    if file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    if user is not None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    from nlgnn.cli import main as cli

    code: Any = 0
    try:
        cli.main(arguments)
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 70
    sys.stdout.flush()
    if modules is not None:
        modules.write_text("\n".join(sys.modules))
    return int(code)


def _count_changes(counter: int, kill_before: int | None) -> None:
    count = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        flags = arguments[2] if event == "open" else 0
        if event in CHANGES or (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)):
            if count == kill_before:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            os.write(counter, b".")

    sys.addaudithook(watch)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), json.loads(sys.argv[2]))
