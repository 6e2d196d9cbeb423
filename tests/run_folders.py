"""What folders hold, and whether two of them hold the same."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_same_folder(path: Path, whole: Path, told_anew: Collection[str] = ()) -> None:
    """The same files with the same content, but for seconds and the date; nothing half-written.

    Args:
        told_anew: files that need only be there, such as a page with seconds in it.
    """
    found, wanted = files_in(path), files_in(whole)
    assert found.keys() == wanted.keys()
    for name in found.keys() - {"summary.json", "config.json", *told_anew}:
        assert found[name] == wanted[name], name
    configs = [json.loads(files["config.json"]) for files in (found, wanted)]
    assert [{**config, "date": ""} for config in configs[:1]] == [{**config, "date": ""} for config in configs[1:]]
    summaries = [json.loads(files["summary.json"]) for files in (found, wanted)]
    for run in (run for summary in summaries for run in summary["runs"]):
        run.pop("seconds")
    assert summaries[0] == summaries[1]
