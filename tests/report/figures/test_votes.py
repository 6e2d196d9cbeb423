"""The page of a model whose nodes vote: how much votes count in each run, and whether voters agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from report_samples import easy_graph, trained_on

from nlgnn.nn.neighbour_vote import SHARES
from nlgnn.report.figures.order import vote_row, votes_section
from nlgnn.report.page import Command, Figure, Headline
from nlgnn.report.run_page import run_parts
from nlgnn.report.table import Section

GRAPH = easy_graph()


def test_a_voting_run_tells_of_its_votes(tmp_path: Path) -> None:
    trained = trained_on(GRAPH, tmp_path / "run", "vote-mlp")
    by_title = {part.title: part for part in run_parts(trained, GRAPH, {}) if not isinstance(part, Headline)}
    assert "Sorted sequence" not in by_title
    section = by_title["Weight of votes"]
    assert isinstance(section, Section)
    shares = [SHARES[int(run.state["share"])] for run in trained.runs]
    told = [row["weight of votes"] for row in section.rows]
    assert told == [f"× {share:g}" if share else "0: the local part alone" for share in shares]
    figure = by_title["Label agreement of votes"]
    assert isinstance(figure, Figure)
    figure.chart.to_dict()
    means = np.asarray(figure.tables["rows"]["mean"])
    assert means.shape == (4,)
    assert means[3] > means[1]  # training found more than chance on a graph whose features tell the label
    explain = by_title["Votes for one node, with weights and labels"]
    assert isinstance(explain, Command)
    assert str(trained.folder.path) in explain.words


def test_counts_are_told_in_words(tmp_path: Path) -> None:
    trained = trained_on(GRAPH, tmp_path / "run", "vote-mlp", epochs=2)
    models = [trained.factory() for _ in trained.runs]
    for model, share in zip(models, (0, 3), strict=True):
        model.share.data = torch.tensor(share)
    section = votes_section([vote_row(run, model) for run, model in zip(trained.runs, models, strict=True)])
    assert section.text == "Votes count in 1 of 2 runs."
    assert [row["weight of votes"] for row in section.rows] == ["0: the local part alone", "× 1"]
