r"""Which nodes have similar features: a graph of the most similar ones, and pairs to learn similarity from.

The similarity of two nodes is the cosine of their rows of :math:`B = (X \ne 0)`: what they have, not how much of it.
Where more than half of all features are not zero, as in embeddings of words, :math:`B` says next to nothing, and the
cosine is that of the features themselves. A row of zeros is similar to none. All rows are compared with all others, a
block of rows at a time: O(n²) time, O(n) memory beyond the features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse

EXTREMES = 5  # pairs of each kind a node: least and most similar
# Cosines no further apart than this are a tie, which a lot decides, always the same one. Node numbers must not: files
# may be sorted by class. Cosines no larger than this are no similarity.
TIE = 1e-9
BLOCK_ENTRIES, FEWEST_ROWS = 2**21, 16  # of a block of similarities


class FeatureSimilarity(NamedTuple):
    """What SimP-GCN takes from the features.

    Args:
        neighbours: in each row the positive cosines with the nodes that are most similar to this one, without itself.
        pairs: for each node the pairs with the least and the most similar other nodes, each pair once.
        cosines: of the pairs.
    """

    neighbours: sparse.csr_array
    pairs: Int[np.ndarray, "2 p"]
    cosines: Float[np.ndarray, " p"]


def feature_similarity(x: NDArray[np.float32] | sparse.csr_array, num_neighbours: int) -> FeatureSimilarity:
    """The `num_neighbours` most similar nodes of each, and the pairs of its `EXTREMES` least and most similar ones."""
    num_nodes = x.shape[0]
    others = num_nodes - 1
    wanted, extremes = min(max(num_neighbours, EXTREMES), others), min(EXTREMES, others)
    lot = np.random.default_rng(0)
    degrees, columns, weights, pairs, pair_cosines = [], [], [], [], []
    for start, cosines in _cosine_blocks(x):
        rows = np.arange(start, start + len(cosines))[:, None]
        ranks = lot.random(cosines.shape)
        ranks *= TIE
        ranks += cosines
        np.put_along_axis(ranks, rows, np.inf, axis=1)
        most = _largest(ranks, wanted + 1)[:, 1:]  # the first is the node itself
        least = np.argpartition(ranks, extremes, axis=1)[:, :extremes]

        nearest = most[:, :num_neighbours]
        similarity = np.take_along_axis(cosines, nearest, axis=1)
        similar = similarity > TIE
        degrees.append(similar.sum(1))
        columns.append(nearest[similar])
        weights.append(similarity[similar])

        partners = np.concatenate([least, most[:, :extremes]], axis=1)
        pairs.append((np.minimum(rows, partners) * num_nodes + np.maximum(rows, partners)).ravel())
        pair_cosines.append(np.take_along_axis(cosines, partners, axis=1).ravel())
    distinct, first = np.unique(np.concatenate(pairs), return_index=True)
    pointers = np.concatenate([[0], np.cumsum(np.concatenate(degrees))])
    neighbours = sparse.csr_array(
        (np.concatenate(weights), np.concatenate(columns), pointers), shape=(num_nodes, num_nodes)
    )
    neighbours.sort_indices()
    return FeatureSimilarity(neighbours, np.stack(np.divmod(distinct, num_nodes)), np.concatenate(pair_cosines)[first])


def _cosine_blocks(x: NDArray[np.float32] | sparse.csr_array) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The first row's number, and the cosines of some rows with all rows."""
    num_nodes, num_features = x.shape
    filled = x.count_nonzero() if isinstance(x, sparse.csr_array) else np.count_nonzero(x)
    if 2 * filled > num_nodes * num_features:
        compared = (x.toarray() if isinstance(x, sparse.csr_array) else x).astype(np.float64)
        norms = np.linalg.norm(compared, axis=1)
    else:
        compared = sparse.csr_array(x != 0, dtype=np.float32)  # their products are whole numbers, exact in float32
        norms = np.sqrt(np.diff(compared.indptr))
    factors = np.divide(1, norms, out=np.zeros(num_nodes), where=norms > 0)
    step = max(FEWEST_ROWS, BLOCK_ENTRIES // num_nodes)
    for start in range(0, num_nodes, step):
        block = compared[start : start + step]
        # A sparse matrix times a dense block is several times as fast as the product of two sparse ones.
        products = block @ compared.T if isinstance(block, np.ndarray) else (compared @ block.T.toarray()).T
        cosines = np.empty(products.shape)
        np.multiply(products, factors, out=cosines)
        cosines *= factors[start : start + step, None]
        yield start, cosines


def _largest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Where in each row its largest values are, the largest first."""
    places = np.argpartition(values, -count, axis=1)[:, -count:]
    order = np.take_along_axis(values, places, axis=1).argsort(axis=1)[:, ::-1]
    return np.take_along_axis(places, order, axis=1)
