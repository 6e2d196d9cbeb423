"""Run the first command of README.md, and write its leaderboard and verdict into README.md and docs/start.md.

python tools/update_leaderboard.py [FOLDER]    # the finished run in FOLDER, in place of a new run
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import textwrap
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from nlgnn.files import write_text
from nlgnn.report.text import sections_page
from nlgnn.selection.leaderboard import board_of
from nlgnn.training.train import CHOICE_FILE

ROOT = Path(__file__).parent.parent
README, START = ROOT / "README.md", ROOT / "docs" / "start.md"
COMMAND = r"^nlgnn train --nodes examples/[^\n]*$"
WIDTH = 100
DIRECTION = "The direction of edges"


def update(folder: Path, readme: Path = README, start: Path = START) -> None:
    """Write the best entries of a finished run into both pages, with the finding on direction or the whole verdict."""
    choice = json.loads((folder / CHOICE_FILE).read_text("utf-8"))
    direction = [sentence for sentence in choice["verdict"] if sentence.startswith(DIRECTION)]
    brief = [textwrap.shorten(sentence, WIDTH, placeholder=" …") for sentence in direction]
    _write(readme, [*leaderboard_lines(folder, 2, [])[1:], *brief])  # without the title
    compared = [finding["other"] for finding in choice["findings"] if finding["subject"] == DIRECTION]
    verdict = [textwrap.fill(text, WIDTH, break_on_hyphens=False) for text in (choice["headline"], *choice["verdict"])]
    _write(start, [*leaderboard_lines(folder, 3, compared), "", *verdict])


def _write(page: Path, lines: list[str]) -> None:
    write_text(page, with_block(page.read_text("utf-8"), "\n".join(lines)))


def leaderboard_lines(folder: Path, top: int, names: list[str]) -> list[str]:
    """Return the leaderboard as the console shows it: the best entries, those of some names, and … for the others."""
    section = board_of(folder).section()
    rows, gap = [], dict.fromkeys(section.rows[0], "") | {"rank": "…"}
    for number, row in enumerate(section.rows):
        if number < top or row["model"] in names:
            rows.append(row)
        elif rows[-1] != gap:
            rows.append(gap)
    text = StringIO()
    Console(file=text, width=WIDTH).print(sections_page([section._replace(rows=rows, caption="", text="")], WIDTH))
    return [line.rstrip() for line in text.getvalue().strip().splitlines()]


def with_block(page: str, block: str) -> str:
    """Return a page with another `text` block after the command."""
    found = re.search(rf"{COMMAND}.*?^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit("The page has no text block after the command.")
    return page[: found.start(1)] + block + "\n" + page[found.end(1) :]


def run_example(folder: Path) -> None:
    """Run the command of the README into a folder."""
    found = re.search(COMMAND, README.read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit("README.md does not show the command.")
    words = shlex.split(found[0])
    words[words.index("--out") + 1] = str(folder)
    subprocess.run([sys.executable, "-m", *words], cwd=ROOT, check=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        update(Path(sys.argv[1]))
    else:
        with TemporaryDirectory() as place:
            run_example(Path(place) / "run")
            update(Path(place) / "run")
