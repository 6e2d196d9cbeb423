"""The tool that writes the leaderboard of the example into README.md and docs/start.md, and the blocks there."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from nlgnn.selection.leaderboard import Leaderboard, Row
from nlgnn.selection.portfolio import Entry

ROOT = Path(__file__).parent.parent
PAGE = """# Page

```text
another block
```

```sh
nlgnn train --nodes examples/accounts.csv --edges examples/payments.csv --label is_fraud --out runs/accounts
```

```text
old
```

```text
a later block
```
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    found = importlib.util.spec_from_file_location("update_leaderboard", ROOT / "tools" / "update_leaderboard.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a run with five entries, of which the last one answers the question of direction."""
    board = Leaderboard("accounts", "random-60", "average-precision", folder=tmp_path)
    for place, name in enumerate(("bank", "trees", "kernel", "gcn", "trees, undirected")):
        figures = [{"average-precision": 50.0 - place}]
        board.add(Row(Entry(name, "trees"), "finished", "", figures, figures, 1.0, 0.1), 5.0)
    findings = [{"subject": "The direction of edges", "one": "trees", "other": "trees, undirected"}]
    verdict = ["Neighbours help: much.", "The direction of edges helps: a lot."]
    choice = {"headline": "Chose bank.", "verdict": verdict, "findings": findings}
    (tmp_path / "choice.json").write_text(json.dumps(choice))
    return tmp_path


def test_both_pages_are_written(tool: ModuleType, folder: Path) -> None:
    readme, start = folder / "README.md", folder / "start.md"
    for page in (readme, start):
        page.write_text(PAGE)
    tool.update(folder, readme, start)
    for page, places in ((readme, ["1", "2", "…"]), (start, ["1", "2", "3", "…", "5"])):
        text = page.read_text()
        before, _, after = PAGE.partition("old\n")
        assert text.startswith(before)
        assert text.endswith(after)
        block = text[len(before) : -len(after)]
        assert re.findall(r"^(?:\d|…)", block, re.MULTILINE) == places
        assert "The direction of edges helps: a lot." in block
        assert ("Chose bank." in block) == (page == start)


def test_a_page_without_the_block(tool: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no text block"):
        tool.with_block("# Page\n", "new")


def test_the_pages_show_one_run(tool: ModuleType) -> None:
    readme, start = (
        re.search(rf"{tool.COMMAND}.*?^```text\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        for page in (tool.README, tool.START)
    )
    assert readme is not None
    assert start is not None
    rows, known = (
        [line.split() for line in block[1].splitlines() if re.match(r"\d+ ", line)] for block in (readme, start)
    )
    assert rows
    assert rows == known[: len(rows)]
