"""Models as ordinary PyTorch modules, in the vocabulary of PyTorch Geometric."""

from nlgnn.nn.base import ForeignModel, Model, as_model
from nlgnn.nn.baselines.acm_gcn import ACMGCN
from nlgnn.nn.baselines.bank import FeatureBank
from nlgnn.nn.baselines.cpgcn import CPGCN
from nlgnn.nn.baselines.dirgcn import DirGCN
from nlgnn.nn.baselines.fagcn import FAGCN
from nlgnn.nn.baselines.gcnii import GCNII
from nlgnn.nn.baselines.geom_gcn import GeomGCN
from nlgnn.nn.baselines.gpr_gnn import GPRGNN
from nlgnn.nn.baselines.h2gcn import H2GCN
from nlgnn.nn.baselines.linkx import LINKX
from nlgnn.nn.baselines.simp_gcn import SimPGCN
from nlgnn.nn.inputs import Inputs
from nlgnn.nn.kernels.sparse import Operator, spmm
from nlgnn.nn.local import GAT, GCN, MLP, GraphSAGE
from nlgnn.nn.mixing import GlobalAttention, SortedConv
from nlgnn.nn.neighbour_vote import NeighbourVote
from nlgnn.nn.non_local import NonLocal
from nlgnn.nn.orders import LearnedOrder, Order, RandomOrder, Ranking, ScoreOrder
from nlgnn.nn.versions import NLGAT, NLGCN, NLMLP

__all__ = [
    "ACMGCN",
    "CPGCN",
    "FAGCN",
    "GAT",
    "GCN",
    "GCNII",
    "GPRGNN",
    "H2GCN",
    "LINKX",
    "MLP",
    "NLGAT",
    "NLGCN",
    "NLMLP",
    "DirGCN",
    "FeatureBank",
    "ForeignModel",
    "GeomGCN",
    "GlobalAttention",
    "GraphSAGE",
    "Inputs",
    "LearnedOrder",
    "Model",
    "NeighbourVote",
    "NonLocal",
    "Operator",
    "Order",
    "RandomOrder",
    "Ranking",
    "ScoreOrder",
    "SimPGCN",
    "SortedConv",
    "as_model",
    "spmm",
]
