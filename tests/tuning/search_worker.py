"""One of several processes that share a search: search_worker.py FILE|ADDRESS NAME. It may be killed at any time."""

from __future__ import annotations

import sys

from nlgnn.tuning import study, tune
from training_samples import easy_graph

SPACE = {"hidden": [2, 3, 4], "lr": [0.01, 0.03, 0.05, 0.1], "dropout": 0.5, "weight_decay": 0, "kernel_size": 3}

if __name__ == "__main__":  # only in a process of its own: what follows would change other tests
    # Short, so that a test need not wait long for what a killed one had.
    study.HEARTBEAT_SECONDS, study.GRACE_SECONDS = 1, 4
    tune.SECONDS_BETWEEN_LOOKS, tune.BATCH = 0.3, 2
    place, name = sys.argv[1:]
    where = {"storage": place, "study": name} if place.startswith("postgresql") else {"study": place}
    tune.tune(
        easy_graph(),
        "nlmlp",
        settings="all",
        search_splits=2,
        search_epochs=150,
        stopping="never",
        preset="paper",
        device="cpu",
        progress=False,
        **where,
        **SPACE,
    )
