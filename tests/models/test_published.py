"""What the compared systems' authors published, and that a name brings it along."""

from __future__ import annotations

from typing import Any

from each_of import each_of
from nlgnn.datasets.catalog import CATALOG
from nlgnn.models.build import resolve
from nlgnn.models.options import model_options
from nlgnn.models.registry import PRESETS, SYSTEMS, System, get_system
from nlgnn.training.recipe import Recipe

WRAPPED = ("dirgcn", "linkx", "gcnii", "sage", "h2gcn", "fagcn", "bank", "acm-gcn", "gpr-gnn")
OWN_WAY = [system for system in SYSTEMS.values() if system.program]

# Geom-GCN: hidden channels a division, weight decay.
GEOM_GCN = {
    "cora": (16, 5e-6),
    "citeseer": (16, 5e-6),
    "pubmed": (64, 5e-6),
    "chameleon": (48, 5e-6),
    "squirrel": (48, 5e-6),
    "actor": (32, 5e-6),
    "cornell": (32, 5e-5),
    "texas": (32, 5e-5),
    "wisconsin": (32, 5e-5),
}
# SimP-GCN: bias of the gate, gamma, lambda, hidden channels, lr, epochs, patience.
SIMP_GCN = {
    "actor": (0, 0.1, 1, 16, 0.05, 500, 100),
    "cornell": (0, 1, 0.1, 32, 0.05, 500, 100),
    "texas": (0, 1, 0.5, 32, 0.05, 500, 100),
    "wisconsin": (0, 0.1, 1, 32, 0.05, 500, 100),
    "cora": (2, 0.01, 50, 128, 0.01, 200, 200),
    "citeseer": (2, 0.01, 100, 128, 0.01, 200, 200),
    "pubmed": (0, 0.01, 1, 128, 0.01, 200, 200),
}


@each_of("name", ["geom-gcn", "geom-gcn-g", "geom-gcn-s"])
@each_of("dataset", GEOM_GCN)
def test_geom_gcn_is_trained_as_published(name: str, dataset: str) -> None:
    arguments, recipe = resolve(name, dataset, None, {})
    assert (arguments["hidden_channels"], recipe.weight_decay) == GEOM_GCN[dataset]
    assert arguments["dropout"] == 0.5
    assert arguments["neighbourhood"] == {"geom-gcn": "both", "geom-gcn-g": "graph", "geom-gcn-s": "latent"}[name]
    assert (recipe.epochs, recipe.lr, recipe.lr_factor, recipe.lr_patience) == (5000, 0.05, 0.8, 50)
    assert (recipe.stopping, recipe.patience, recipe.selection) == ("patience-either", 100, "last-both")


@each_of("dataset", SIMP_GCN)
def test_simp_gcn_is_trained_as_published(dataset: str) -> None:
    arguments, recipe = resolve("simp-gcn", dataset, None, {})
    names = ("gate_bias", "gamma", "similarity_loss", "hidden_channels")
    found = (*(arguments[name] for name in names), recipe.lr, recipe.epochs, recipe.patience)
    assert found == SIMP_GCN[dataset]
    assert (arguments["dropout"], recipe.weight_decay, recipe.selection) == (0.5, 5e-4, "last-best")


@each_of(
    ("name", "expected"),
    [
        ("h2gcn", {"epochs": 2000, "lr": 0.01, "weight_decay": 1e-3, "stopping": "never", "selection": "last-best"}),
        ("fagcn", {"epochs": 500, "lr": 0.01, "weight_decay": 5e-5, "stopping": "never"}),
        ("cpgcn", {"pretrain_epochs": 400, "epochs": 1600, "lr": 0.01, "weight_decay": 1e-3, "stopping": "never"}),
    ],
)
@each_of("dataset", ["texas", "cora", "mine"])
def test_programmes(name: str, expected: dict[str, Any], dataset: str) -> None:
    """They win over every preset: these are about other systems."""
    for preset in PRESETS:
        assert resolve(name, dataset, preset, {})[1] == Recipe(features="unit-sum", **expected)


@each_of("system", OWN_WAY, ids=lambda system: system.name)
def test_settings_name_options_that_exist(system: System) -> None:
    known = model_options(system).keys() | Recipe.model_fields.keys()
    listed = [system.defaults, system.program, *system.published.values(), *system.variants, *system.settings]
    for options in listed:
        assert options.keys() <= known
        resolve(system.name, "mine", None, dict(options))  # values too
    for name, values in system.search_space.items():
        for value in values:
            resolve(system.name, "mine", None, {name: value})
    assert system.published.keys() <= CATALOG.keys()


# GCNII: layers, alpha, theta, weight decay.
GCNII = {
    "cora": (64, 0.2, 0.5, 1e-4),
    "citeseer": (64, 0.5, 0.5, 5e-6),
    "pubmed": (64, 0.1, 0.5, 5e-6),
    "chameleon": (8, 0.2, 1.5, 5e-4),
    "cornell": (16, 0.5, 1.0, 1e-3),
    "texas": (32, 0.5, 1.5, 1e-4),
    "wisconsin": (16, 0.5, 1.0, 5e-4),
}


@each_of("dataset", GCNII)
def test_gcnii_is_trained_as_published(dataset: str) -> None:
    arguments, recipe = resolve("gcnii", dataset, None, {})
    found = (*(arguments[name] for name in ("num_layers", "alpha", "theta")), recipe.weight_decay)
    assert found == GCNII[dataset]
    assert (arguments["hidden_channels"], arguments["dropout"], recipe.lr, recipe.epochs) == (64, 0.5, 0.01, 1500)
    assert (recipe.stopping, recipe.patience, recipe.selection) == ("patience", 100, "lowest-loss")


# FSGNN: dropout, decay of shares, last layer and others, learning rates of shares and others.
FSGNN = {
    "cora": (0.6, 0.1, 1e-4, 1e-3, 0.01, 0.01),
    "citeseer": (0.5, 1e-4, 0, 1e-3, 0.005, 0.01),
    "pubmed": (0.7, 0.01, 1e-4, 1e-4, 0.005, 0.01),
    "chameleon": (0.5, 0.1, 0, 0, 0.005, 0.005),
    "squirrel": (0.7, 0.1, 1e-3, 0, 0.04, 0.01),
    "wisconsin": (0.5, 1e-4, 1e-4, 1e-3, 0.01, 0.01),
    "texas": (0.7, 1e-3, 0, 1e-3, 0.01, 0.01),
    "cornell": (0.5, 0, 1e-3, 1e-3, 0.01, 0.01),
    "actor": (0.7, 0.01, 1e-3, 1e-4, 0.01, 0.01),
}


@each_of("dataset", FSGNN)
def test_fsgnn_is_trained_as_published(dataset: str) -> None:
    arguments, recipe = resolve("fsgnn", dataset, None, {})
    of_groups = (arguments["share_decay"], arguments["output_decay"], recipe.weight_decay, arguments["share_lr"])
    assert (arguments["dropout"], *of_groups, recipe.lr) == FSGNN[dataset]
    assert (arguments["hidden_channels"], arguments.get("row_norm", True)) == (64, dataset != "actor")
    assert (recipe.features, recipe.epochs, recipe.patience, recipe.selection) == ("unit-sum", 1500, 100, "lowest-loss")


# ACM-GCN: structure, learning rate, weight decay, dropout.
ACM_GCN = {
    "cornell": (False, 0.05, 1e-3, 0.1),
    "wisconsin": (True, 0.01, 1e-3, 0.1),
    "texas": (True, 0.01, 5e-4, 0.2),
    "actor": (False, 0.05, 5e-3, 0),
    "chameleon": (True, 0.05, 1e-4, 0.7),
    "squirrel": (True, 0.002, 1e-4, 0.6),
    "cora": (False, 0.002, 0, 0.6),
    "citeseer": (False, 0.01, 5e-5, 0.3),
    "pubmed": (False, 0.05, 5e-5, 0.3),
}


@each_of("dataset", ACM_GCN)
def test_acm_gcn_is_trained_as_published(dataset: str) -> None:
    arguments, recipe = resolve("acm-gcn", dataset, None, {})
    structure = arguments.get("structure", False)
    assert (structure, recipe.lr, recipe.weight_decay, arguments["dropout"]) == ACM_GCN[dataset]
    assert (recipe.features, recipe.epochs, recipe.patience) == ("none" if structure else "unit-sum", 5000, 200)


# GPR-GNN: alpha, learning rate, weight decay, dropout before the propagation.
GPR_GNN = {
    "cora": (0.1, 0.01, 5e-4, 0.5),
    "citeseer": (0.1, 0.01, 5e-4, 0.5),
    "pubmed": (0.2, 0.05, 5e-4, 0.5),
    "chameleon": (1.0, 0.05, 0, 0.7),
    "actor": (0.9, 0.01, 0, 0.5),
    "squirrel": (0.0, 0.05, 0, 0.7),
    "texas": (1.0, 0.05, 5e-4, 0.5),
    "cornell": (0.9, 0.05, 5e-4, 0.5),
}


@each_of("dataset", GPR_GNN)
def test_gpr_gnn_is_trained_as_published(dataset: str) -> None:
    arguments, recipe = resolve("gpr-gnn", dataset, None, {})
    rate = arguments["propagation_dropout"]
    assert (arguments["alpha"], recipe.lr, recipe.weight_decay, rate) == GPR_GNN[dataset]
    assert (arguments["hidden_channels"], arguments["dropout"], recipe.epochs, recipe.patience) == (64, 0.5, 1000, 200)


@each_of(("dataset", "lr", "layers"), [("chameleon", 0.005, 5), ("squirrel", 0.01, 4)])
def test_dirgcn_is_trained_as_published(dataset: str, lr: float, layers: int) -> None:
    arguments, recipe = resolve("dirgcn", dataset, None, {})
    assert arguments == {
        "hidden_channels": 128,
        "num_layers": layers,
        "jumping": "max",
        "alpha": 1.0,
        "row_norm": True,
        "dropout": 0.0,
    }
    assert recipe == Recipe(lr=lr, weight_decay=0, epochs=10_000, stopping="patience", patience=400)


@each_of("system", [system for system in SYSTEMS.values() if system.local is None], ids=lambda system: system.name)
def test_at_most_eight_are_tried(system: System) -> None:
    assert max(1, len(system.variants)) * max(1, len(system.settings)) <= 8


@each_of("local", [SYSTEMS[name] for name in WRAPPED], ids=lambda system: system.name)
def test_a_wrapped_system_is_trained_as_its_local_part_is(local: System) -> None:
    wrapped = get_system(f"nl-{local.name}")
    assert wrapped.local == local.name
    for dataset in ("texas", "cora", "mine"):
        (arguments, recipe), (of_local, local_recipe) = (
            resolve(each, dataset, None, {}) for each in (wrapped.name, local.name)
        )
        assert recipe == local_recipe
        assert of_local.items() <= arguments.items()


@each_of(
    ("asked", "name"),
    [
        ("CPGNN", "cpgcn"),
        ("GraphSAGE", "sage"),
        ("nl-gcn", "nlgcn"),
        ("simpgcn", "simp-gcn"),
        ("Geom_GCN_g", "geom-gcn-g"),
    ],
)
def test_names_in_other_spellings(asked: str, name: str) -> None:
    assert get_system(asked).name == name
