"""Fuzz every format that is read, print the seeds of faults, and write the result page.

python -m tools.fuzz --cases 10000 --out docs/results/fuzz.md
python -m tools.fuzz --only CSV --first 17 --cases 1 repeats a case.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
fuzz: Any = import_module("fuzzing").fuzz

HEAD = "| format | cases | accepted | refused | other errors | over 10 s | over 2 GB | longest, s |"


def page(tallies: dict[str, Any]) -> str:
    """Return the result page."""
    rows = {
        name: (one.cases, one.accepted, one.refused, *map(len, (one.faults, one.slow, one.large)), one.longest)
        for name, one in tallies.items()
    }
    sums = [sum(row[place] for row in rows.values()) for place in range(6)]
    rows["all"] = (*sums, max(row[6] for row in rows.values()))
    lines = []
    for name, row in rows.items():
        counts = " | ".join(f"{value:,}" for value in row[:6])
        lines.append(f"| {name} | {counts} | {row[6]:.1f} |")
    share = sums[1] / max(1, sums[0])
    return f"""# Fuzzing

`make fuzz` reads random inputs of every format: small valid tables, graphs, options, run folders, model folders, stores
and studies that are changed in their structure, some also in their bytes. An input is accepted or refused with an error
of two sentences; anything else is a fault. Accepted tables are made into graphs, accepted folders predict, accepted
searches continue. Each case runs in the same process with a limit of 10 s of processor time, and its memory is watched.

{HEAD}
|---|---:|---:|---:|---:|---:|---:|---:|
{chr(10).join(lines)}

{share:.0%} of the inputs were accepted. Seeds are 0, 1, 2 … for each format.
`python -m tools.fuzz --only CSV --first 17 --cases 1` repeats one.
"""


def main() -> None:
    """Run cases, print what went wrong and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    stop_at = None if given.minutes is None else time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as name:
        tallies = fuzz(given.cases, Path(name), given.first, given.only, stop_at)
    for tally in tallies.values():
        for fault in (*tally.faults, *tally.slow, *tally.large):
            print(fault)
    text = page(tallies)
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    sys.exit(any(tally.faults or tally.slow or tally.large for tally in tallies.values()))


if __name__ == "__main__":
    main()
