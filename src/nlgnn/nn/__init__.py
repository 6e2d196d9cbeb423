"""Models as ordinary PyTorch modules, in the vocabulary of PyTorch Geometric."""

from nlgnn.nn.aggregation import NonLocalAggregation
from nlgnn.nn.attention import GlobalAttention
from nlgnn.nn.cpgcn import CPGCN
from nlgnn.nn.dirgcn import DirGCN
from nlgnn.nn.fagcn import FAGCN
from nlgnn.nn.gcnii import GCNII
from nlgnn.nn.geom_gcn import GeomGCN
from nlgnn.nn.h2gcn import H2GCN
from nlgnn.nn.inputs import Inputs
from nlgnn.nn.linkx import LINKX
from nlgnn.nn.local import GAT, GCN, MLP
from nlgnn.nn.metric_order import MetricOrder
from nlgnn.nn.model import Model
from nlgnn.nn.nonlocal_ import NonLocal
from nlgnn.nn.nonlocal_of import NLGAT, NLGCN, NLMLP
from nlgnn.nn.sage import GraphSAGE
from nlgnn.nn.simp_gcn import SimPGCN
from nlgnn.nn.sparse import Operator, spmm

__all__ = [
    "CPGCN",
    "FAGCN",
    "GAT",
    "GCN",
    "GCNII",
    "H2GCN",
    "LINKX",
    "MLP",
    "NLGAT",
    "NLGCN",
    "NLMLP",
    "DirGCN",
    "GeomGCN",
    "GlobalAttention",
    "GraphSAGE",
    "Inputs",
    "MetricOrder",
    "Model",
    "NonLocal",
    "NonLocalAggregation",
    "Operator",
    "SimPGCN",
    "spmm",
]
