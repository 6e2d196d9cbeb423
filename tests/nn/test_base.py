"""Arguments of models are checked by the types of their constructors."""

from __future__ import annotations

import pytest

from each_of import each_of
from nlgnn.errors import OptionError
from nlgnn.nn import CPGCN, FAGCN, GCNII, LINKX, DirGCN, GeomGCN, NonLocal, SimPGCN


@pytest.mark.usefixtures("as_users_run_it")
@each_of(
    ("model_class", "options", "message"),
    [
        (CPGCN, {"in_channels": 0}, "in_channels=0"),
        (CPGCN, {"prior": "gcn"}, "prior='gcn': input should be 'mlp' or 'cheby'"),
        (CPGCN, {"cotrain_weight": -1.0}, "cotrain_weight=-1.0"),
        (DirGCN, {"alpha": -0.1}, "alpha=-0.1"),
        (FAGCN, {"eps": 1.1}, "eps=1.1"),
        (FAGCN, {"num_layers": 1.5}, "num_layers=1.5"),
        (GCNII, {"alpha": 1.0}, "alpha=1.0"),
        (GCNII, {"theta": 0.0}, "theta=0.0"),
        (GeomGCN, {"space": "time"}, "space='time'"),
        (LINKX, {"num_nodes": 0}, "num_nodes=0"),
        (SimPGCN, {"num_similar": 0}, "num_similar=0"),
    ],
)
def test_impossible_arguments_are_refused(model_class, options, message):
    with pytest.raises(OptionError, match=message):
        model_class(**{"in_channels": 3, "hidden_channels": 4, "out_channels": 2, **options})


@pytest.mark.usefixtures("as_users_run_it")
def test_a_local_part_is_a_module():
    with pytest.raises(OptionError, match="local='gcn'"):
        NonLocal("gcn", 3, 3)


def test_numbers_are_given_in_the_declared_type():
    assert FAGCN(3, 4, 2, num_layers="3").propagations[2] is not None
