"""A PostgreSQL server of its own, on loopback, in a temporary folder; by itself, a script that shows its address."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def server_programs() -> Path | None:
    """The folder of initdb and pg_ctl; Debian keeps them away from the search path."""
    places = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "pg_ctl").exists()), None)


@contextmanager
def postgres_server(programs: Path) -> Iterator[str]:
    """The address of an empty database, while the server runs."""
    folder = Path(tempfile.mkdtemp(prefix="nlgnn-postgres-"))
    who: dict[str, Any] = {}
    if os.geteuid() == 0:  # as root the server refuses to run
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(program: str, *arguments: str) -> None:
        # Into a file: the server inherits it, and a pipe would never end.
        with (folder / "out").open("a") as out:
            done = subprocess.run([programs / program, *arguments], cwd=folder, stdout=out, stderr=out, **who)
        if done.returncode:
            raise RuntimeError((folder / "out").read_text())

    (folder / "out").touch()
    data = str(folder / "data")
    try:
        run("initdb", "--pgdata", data, "--username", "nlgnn", "--auth", "trust", "--no-sync")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "--pgdata", data, "--wait", "--options", options, "start")
        try:
            yield f"postgresql://nlgnn@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "--pgdata", data, "--mode", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    found = server_programs()
    if found is None:
        raise SystemExit("There is no PostgreSQL server here; on Debian and Ubuntu: apt install postgresql")
    with postgres_server(found) as url:
        input(f"{url}\nEnter stops it. ")
