"""Makes what test_old_folder.py reads: make_old_folder.py FOLDER, once a format version, with the version to be kept.

The folder then holds two tables, a table of new nodes, a run folder, a model folder, and what was predicted with them.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np

from nlgnn import cli
from nlgnn.datasets.tables import read_graph
from nlgnn.estimator import NodeClassifier

COLOURS, TOPICS = ("red", "green", "blue"), ("sport", "arts")


def rows(numbers: range, with_topics: bool) -> str:
    """A topic goes with a colour and a size; every fifth is unknown."""
    lines = ["id,size,colour" + ",topic" * with_topics]
    for number in numbers:
        topic = TOPICS[number % 2] if number % 5 else ""
        cells = [f"page {number}", f"{number % 7 + 3 * (number % 2)}", COLOURS[(number + number % 2) % 3]]
        lines.append(",".join([*cells, topic] if with_topics else cells))
    return "\n".join(lines) + "\n"


def links(numbers: range) -> str:
    return "source,target\n" + "".join(f"page {number},page {(7 * number + 1) % 40}\n" for number in numbers)


def run(line: str) -> None:
    with suppress(SystemExit):
        cli.main(line.split())


def make(folder: Path) -> None:
    folder.mkdir()
    os.chdir(folder)
    tables = {"nodes.csv": rows(range(40), True), "edges.csv": links(range(40))}
    tables |= {"new-nodes.csv": rows(range(40, 50), False), "new-edges.csv": links(range(40, 50))}
    for name, text in tables.items():
        Path(name).write_text(text)
    options = "--model nlmlp --hidden 4 --runs 2 --epochs 30"
    run(f"train --nodes nodes.csv --edges edges.csv --label topic {options} --out run")
    run("predict run --all --out labels.csv")
    run("predict run --nodes new-nodes.csv --edges new-edges.csv --out new-labels.csv")
    graph = read_graph("nodes.csv", "edges.csv", label="topic").graph
    made = NodeClassifier("nlmlp", n_runs=2, options={"hidden": 4, "epochs": 30}).fit(graph)
    made.save("model")
    np.savetxt("model-probabilities.csv", made.predict_proba(), delimiter=",")
    # What is of this machine, and large: the places of the tables (the test puts its own there), and the report.
    config = json.loads(Path("run/config.json").read_text())
    config["tables"] |= {"nodes": "nodes.csv", "edges": "edges.csv"}
    config["machine"] = {}
    Path("run/config.json").write_text(json.dumps(config, indent=2))
    Path("run/report.html").unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
