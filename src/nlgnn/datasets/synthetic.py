"""Graphs made by rule, on which it is known what a model could find."""

from __future__ import annotations

import numpy as np

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph


def planted_order_graph(
    num_groups: int = 188, group_size: int = 16, seed: int = 0, noise: float = 1.9, mean_degree: int = 4
) -> Graph:
    """Labels that only the right order of the nodes reveals.

    The nodes of a group share a key. A group's value is +1 or -1, and its sign is their label; every node sees that
    value plus normal noise. Edges are random and say nothing. Features are [key, value] as they are, so that a linear
    local part can pass the key on as score: sorted by it, group mates stand side by side.

    With the default noise a node's own value gives the right label in about 70 percent of all cases, the mean over
    nine nodes that stand side by side in the order of the keys in about 90 percent.

    Args:
        noise: standard deviation of the noise.
        mean_degree: neighbours of a node, on average.
    """
    if num_groups < 2 or group_size < 1 or noise < 0 or mean_degree < 0:
        raise OptionError(
            f"planted_order_graph({num_groups=}, {group_size=}, {noise=}, {mean_degree=}).",
            "It needs at least two groups of at least one node, and no negative noise or degree.",
        )
    rng = np.random.default_rng(seed)
    num_nodes = num_groups * group_size
    # Half of the groups each, in an order that has nothing to do with the key.
    group_label = rng.permutation(np.arange(num_groups) % 2)
    group_key = np.linspace(-1, 1, num_groups)
    # Shuffled, so that a node's number does not tell its group.
    group = rng.permutation(np.repeat(np.arange(num_groups), group_size))
    value = 2.0 * group_label[group] - 1 + noise * rng.standard_normal(num_nodes)
    return Graph(
        x=np.stack([group_key[group], value], axis=1).astype(np.float32),
        edge_index=rng.integers(num_nodes, size=(2, num_nodes * mean_degree // 2)),
        y=group_label[group],
        name="planted-order",
        class_names=("negative", "positive"),
    )
