"""Of a model whose nodes vote on each other: how much the votes count in each run, and whether they agree."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

import numpy as np

from nlgnn.analysis.sequence import models_before_and_after
from nlgnn.analysis.voters import heard_homophily
from nlgnn.experiments.section import Section
from nlgnn.graph.graph import Graph
from nlgnn.nn.nonlocal_ import NonLocal
from nlgnn.nn.vote import SHARES
from nlgnn.report.agreement import VOTES_CAPTION, agreement_figure
from nlgnn.report.page import Command, Part
from nlgnn.training.run import Run
from nlgnn.training.train import Trained

CAPTION = (
    "Votes are added to the logits of the local part so many times; validation chose, after every epoch, from "
    "{shares}. Strength is learned, for all nodes; temperature says how fast weights fall with distance."
)


def vote_parts(trained: Trained, graph: Graph, good: Sequence[Run]) -> list[Part]:
    scaled = graph.scale_features(trained.recipe.features)
    models = [models_before_and_after(trained.factory, scaled, run) for run in good]
    agreement = np.array([[heard_homophily(model, scaled) for model in pair] for pair in models])
    explain = f"nlgnn explain {shlex.quote(str(trained.folder.path))} NODE"
    return [
        votes_section(good, [after for _, after in models]),
        agreement_figure("Do nodes that are heard agree?", VOTES_CAPTION, graph, agreement),
        Command("Who voted on a node, with which weight and label", explain),
    ]


def votes_section(runs: Sequence[Run], models: Sequence[NonLocal]) -> Section:
    rows, counting = [], 0
    for run, model in zip(runs, models, strict=True):
        assert model.vote is not None
        assert model.metric is not None
        share = SHARES[int(model.vote.share)]
        counting += share > 0
        row = {"run": str(run.index), "votes count": f"× {share:g}" if share else "0: the local part alone"}
        if model.metric.form == "residual":
            row["strength"] = f"{math.exp(model.metric.log_strength.item()):.3g}"
        rows.append(row | {"temperature": f"{math.exp(model.metric.log_temperature.item()):.3g}"})
    words = f"They count in {counting} of {len(rows)} run{'s' * (len(rows) != 1)}."
    caption = CAPTION.format(shares=", ".join(f"{share:g}" for share in SHARES))
    return Section("How much do votes count?", rows, caption, words, text_columns=2)
