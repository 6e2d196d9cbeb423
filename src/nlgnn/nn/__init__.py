"""Models as ordinary PyTorch modules, in the vocabulary of PyTorch Geometric."""

from nlgnn.nn.aggregation import NonLocalAggregation
from nlgnn.nn.attention import GlobalAttention
from nlgnn.nn.inputs import Inputs
from nlgnn.nn.local import GAT, GCN, MLP
from nlgnn.nn.nonlocal_ import NLGAT, NLGCN, NLMLP, NonLocal
from nlgnn.nn.sparse import Operator, spmm

__all__ = [
    "GAT",
    "GCN",
    "MLP",
    "NLGAT",
    "NLGCN",
    "NLMLP",
    "GlobalAttention",
    "Inputs",
    "NonLocal",
    "NonLocalAggregation",
    "Operator",
    "spmm",
]
