"""Of a model whose nodes vote on each other: how much the votes count in each run, and whether they agree."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

import numpy as np

from nlgnn.analysis.sequence import models_before_and_after
from nlgnn.analysis.voters import heard_homophily
from nlgnn.experiments.section import Rows, Section
from nlgnn.graph.graph import Graph
from nlgnn.nn.nonlocal_ import NonLocal
from nlgnn.nn.vote import SHARES
from nlgnn.report.agreement import VOTES_CAPTION, agreement_figure
from nlgnn.report.page import Command, Part
from nlgnn.training.run import Run
from nlgnn.training.space import VOTES_HAVE_TRIES
from nlgnn.training.train import Trained

ALONE = "0: the local part alone"
CAPTION = (
    "Votes are added to the logits of the local part so many times; validation chose, after every epoch, from "
    "{shares}. Temperature says how fast weights fall with distance."
)
STRENGTH_CAPTION = " Strength is learned, for all nodes: what votes are multiplied by before that."


def vote_parts(trained: Trained, graph: Graph, good: Sequence[Run]) -> list[Part]:
    scaled = graph.scale_features(trained.recipe.features)
    rows, agreement = [], []
    for run in good:
        pair = models_before_and_after(trained.factory, scaled, run)
        rows.append(vote_row(run, pair[1]))
        agreement.append([heard_homophily(model, scaled) for model in pair])
    explain = f"nlgnn explain {shlex.quote(str(trained.folder.path))} NODE"
    return [
        votes_section(rows),
        agreement_figure("Do nodes that are heard agree?", "what is heard", VOTES_CAPTION, graph, np.array(agreement)),
        Command("Who voted on a node, with which weight and label", explain),
    ]


def vote_row(run: Run, model: NonLocal) -> dict[str, str]:
    assert model.vote is not None
    assert model.metric is not None
    share = SHARES[int(model.vote.share)]
    row = {"run": str(run.index), "votes count": f"× {share:g}" if share else ALONE}
    if model.metric.form == "residual":
        row["strength"] = f"{math.exp(model.metric.log_strength.item()):.3g}"
    return row | {"temperature": f"{math.exp(model.metric.log_temperature.item()):.3g}"}


def votes_section(rows: Rows) -> Section:
    counting = sum(row["votes count"] != ALONE for row in rows)
    words = f"They count in {counting} of {len(rows)} run{'s' * (len(rows) != 1)}."
    caption = CAPTION.format(shares=", ".join(f"{share:g}" for share in SHARES))
    caption += STRENGTH_CAPTION * ("strength" in rows[0])
    caption += f" Mind that {VOTES_HAVE_TRIES}; test figures are not touched by that."
    return Section("How much do votes count?", rows, caption, words, text_columns=2)
