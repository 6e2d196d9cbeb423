"""Count the runs that choose the same epoch however many models and threads train them, and the distinct sort keys.

    NLGNN_DATA=… python tools/measure_agreement.py

Ten random-60 splits each of NLGCN on mushroom-body (300 epochs), NLMLP on Texas (300) and NLGCN on Chameleon (150).
"""

from __future__ import annotations

import torch

from nlgnn import configure, fit, load_graph, make_splits
from nlgnn.nn.kernels.sorted_conv import rounded

CASES = (("mushroom-body", "nlgcn", 300), ("texas", "nlmlp", 300), ("chameleon", "nlgcn", 150))
WAYS = ((1, 1), (3, 1), (10, 1), (1, 2), (10, 2))  # replicas and threads


def chosen_epochs(name: str, model: str, epochs: int) -> tuple[list[list[int]], float]:
    """Return the chosen epochs of ten runs for each way of training, and the mean test accuracy of the first way."""
    graph = load_graph(name)
    splits, found, accuracy = make_splits(graph, "random-60", runs=10), [], 0.0
    for replicas, threads in WAYS:
        factory, recipe = configure(model, graph, epochs=epochs, replicas=replicas, threads=threads)
        runs = fit(factory, graph, splits, recipe, progress=False)
        found.append([run.chosen_epoch for run in runs])
        accuracy = accuracy or sum(run.test["accuracy"] for run in runs) / len(runs)
    return found, accuracy


def main() -> None:
    """Print the counts."""
    keys = torch.randn(2_900_000, generator=torch.Generator().manual_seed(0))
    print(f"{rounded(keys).unique().numel():,} distinct keys of {len(keys):,} normal scores")
    for dtype in (torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        for name, model, epochs in CASES:
            found, accuracy = chosen_epochs(name, model, epochs)
            same = sum(len(set(run)) == 1 for run in zip(*found, strict=True))
            one_or_ten = sum(a == b for a, b in zip(found[0], found[2], strict=True))
            print(f"{dtype} {name} {model}: same epoch in all ways {same} of 10, one or ten models {one_or_ten} of 10")
            print(f"  mean test accuracy {accuracy:.1f} % (one model at a time, one thread)", flush=True)


if __name__ == "__main__":
    main()
