"""A small website as two tables, for the tests of a user's own graph."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import numpy as np

TRAIN = ("train", "--nodes", "pages.csv", "--edges", "links.csv", "--label", "topic", "--runs", 2, "--epochs", 5)
WORDS = {"sport": "goal match team", "arts": "paint music stage", "law": "vote court minister"}


def write(path: str, rows: Sequence[Sequence[object]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def write_pages() -> None:
    """Sixty pages, a third of them without a topic, and two that training does not see."""
    rng = np.random.default_rng(0)
    topics = [list(WORDS)[number % 3] for number in range(60)]
    rows = [
        [f"page {number}", number % 7, WORDS[topic], topic if number % 9 < 6 else ""]
        for number, topic in enumerate(topics)
    ]
    links = [[f"page {one}", f"page {other}"] for one, other in rng.integers(60, size=(120, 2))]
    write("pages.csv", [["url", "length", "text", "topic"], *rows])
    write("links.csv", [["source", "target"], *links])
    write("new.csv", [["url", "length", "text"], ["=cmd()", 3, WORDS["law"]], ["new", 1, WORDS["arts"]]])
    write("new-links.csv", [["source", "target"], ["new", "page 1"], ["=cmd()", "new"]])
