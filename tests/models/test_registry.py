"""The registry: published settings, presets, what wins over what, and what a wrong name is answered with."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from each_of import each_of
from nlgnn.datasets.catalog import CATALOG
from nlgnn.errors import OptionError
from nlgnn.models.build import configure, default_preset, resolve
from nlgnn.models.options import model_options
from nlgnn.models.registry import PRESETS, PUBLISHED, SYSTEMS, get_system, load
from nlgnn.nn import NLGCN, NLMLP
from nlgnn.training.recipe import Recipe
from training_samples import easy_graph

# The settings that the authors' script gives, a row a dataset:
# model, hidden, kernel, dropout, dropout between convolutions, weight decay, lr, epochs, window.
RELEASED = {
    "chameleon": ("nlgcn", 48, 5, 0, 0, 0, 0.05, 6000, 100),
    "squirrel": ("nlgcn", 96, 5, 0, 0.5, 0, 0.05, 3000, 100),
    "actor": ("nlmlp", 48, 5, 0, 0.5, 5e-4, 0.05, 3000, 100),
    "cornell": ("nlmlp", 48, 3, 0.5, 0, 5e-5, 0.05, 3000, 100),
    "texas": ("nlmlp", 48, 5, 0.5, 0, 5e-4, 0.05, 3000, 100),
    "wisconsin": ("nlmlp", 48, 3, 0.5, 0, 5e-4, 0.05, 3000, 100),
}
RELEASED["cornell-pre2022"] = RELEASED["cornell"]


@pytest.mark.parametrize("graph", RELEASED)
def test_published_settings(graph: str) -> None:
    model, hidden, kernel, dropout, conv_dropout, weight_decay, lr, epochs, window = RELEASED[graph]
    arguments, recipe = resolve(model, graph, None, {})  # also without asking for the preset
    assert (arguments, recipe) == resolve(model, graph, "released", {})
    assert arguments == {
        "hidden_channels": hidden,
        "kernel_size": kernel,
        "dropout": dropout,
        "conv_dropout": conv_dropout,
        "score_bias": True,
    }
    assert recipe == Recipe(
        features="unit-sum",
        weight_decay=weight_decay,
        lr=lr,
        epochs=epochs,
        stopping="window",
        window=window,
        selection="first-best",
        metric="accuracy",
    )


def test_every_published_row_is_of_the_table() -> None:
    assert PUBLISHED.keys() == RELEASED.keys()
    assert PUBLISHED.keys() <= CATALOG.keys()


def test_published_settings_are_inside_the_grid() -> None:
    for row in PUBLISHED.values():
        grid = SYSTEMS[row.system].search_space
        for name in grid.keys() & row.options.keys():
            assert row.options[name] in grid[name], name


def test_the_grid_is_that_of_the_paper() -> None:
    expected = {
        "hidden": (16, 48, 96, 128, 256),
        "kernel_size": (3, 5, 7),
        "dropout": (0, 0.5, 0.8),
        "weight_decay": (0, 5e-4, 5e-5, 5e-6),
        "lr": (0.001, 0.01, 0.05),
    }
    for system in map(get_system, ("mlp", "gcn", "gat", "nlmlp", "nlgcn", "nlgat")):
        known = {name: values for name, values in expected.items() if name != "kernel_size" or system.local}
        assert dict(system.search_space) == known


@each_of(
    ("graph", "preset"),
    [("texas", "released"), ("cornell-pre2022", "released"), ("cora", "paper"), ("mine", "robust")],
)
def test_default_presets(graph: str, preset: str) -> None:
    assert default_preset(graph) == preset
    assert resolve("nlgcn", graph, None, {}) == resolve("nlgcn", graph, preset, {})


def test_presets_differ_as_documented() -> None:
    arguments = {preset: resolve("nlmlp", "mine", preset, {})[0] for preset in PRESETS}
    common = {"hidden_channels": 48, "dropout": 0.5}
    assert arguments == {
        "paper": common,
        "released": common | {"score_bias": True},
        "robust": common
        | {
            "standardise_score": True,
            "zero_init": True,
            "head": "residual",
            "local_loss": 0.5,
        },
    }
    recipes = {preset: resolve("nlmlp", "mine", preset, {})[1] for preset in PRESETS}
    assert recipes["paper"] == recipes["released"] == Recipe(stopping="window", epochs=3000)
    assert recipes["robust"] == Recipe(features="unit-l2")


def test_a_published_kernel_is_for_the_system_it_was_published_for() -> None:
    assert resolve("nlmlp", "cornell", "released", {})[0]["kernel_size"] == 3
    assert "kernel_size" not in resolve("nlgcn", "cornell", "released", {})[0]  # so 5, as in the authors' program


def test_published_epochs_go_with_the_program_s_stopping_rule() -> None:
    epochs = {preset: resolve("nlgcn", "chameleon", preset, {})[1].epochs for preset in PRESETS}
    assert epochs == {"paper": 6000, "released": 6000, "robust": 1000}


def test_one_rate_given_is_both_also_on_a_published_dataset() -> None:
    assert "conv_dropout" not in resolve("nlmlp", "texas", None, {"dropout": 0.8})[0]
    assert resolve("nlmlp", "texas", None, {"dropout": 0.8, "conv_dropout": 0.1})[0]["conv_dropout"] == 0.1


@pytest.mark.parametrize(("graph", "metric"), [("minesweeper", "roc-auc"), ("texas", "accuracy"), ("mine", "accuracy")])
def test_a_dataset_s_own_metric(graph: str, metric: str) -> None:
    assert resolve("gcn", graph, None, {})[1].metric == metric


def test_local_systems_take_from_a_preset_what_they_have() -> None:
    arguments, recipe = resolve("gcn", "squirrel", "released", {})
    assert arguments == {"hidden_channels": 96, "dropout": 0.0}
    assert (recipe.epochs, recipe.weight_decay, recipe.stopping) == (3000, 0, "window")


def test_later_sources_win() -> None:
    """The system's defaults, the preset, the published settings, then what is asked for."""
    default, published, asked = (
        resolve("nlgcn", graph, "released", options)
        for graph, options in [("mine", {}), ("chameleon", {}), ("chameleon", {"epochs": 7, "hidden": 9, "lr": 0.2})]
    )
    assert (default[1].epochs, published[1].epochs, asked[1].epochs) == (3000, 6000, 7)  # above 1000 of the recipe
    assert (default[0]["dropout"], published[0]["dropout"], asked[0]["dropout"]) == (0.5, 0, 0)
    assert (default[1].lr, published[1].lr, asked[1].lr) == (0.01, 0.05, 0.2)
    assert (default[0]["hidden_channels"], asked[0]["hidden_channels"]) == (48, 9)


def test_one_dropout_sets_both_unless_they_are_apart() -> None:
    graph = easy_graph()
    for options, rates in [({"dropout": 0.3}, (0.3, 0.3)), ({"dropout": 0.3, "conv_dropout": 0.0}, (0.3, 0.0))]:
        model = configure("nlmlp", graph, "paper", **options)[0]()
        inside = next(module for module in model.mixer.convs if isinstance(module, torch.nn.Dropout))
        assert (model.local.dropout.p, inside.p) == rates


def test_configure_takes_sizes_from_the_graph() -> None:
    graph = easy_graph(num_classes=3)
    factory, recipe = configure("nlgcn", graph, "paper", hidden=5, embedding=7, epochs=2)
    model = factory()
    assert type(model) is NLGCN
    assert [tuple(layer.weight.shape) for layer in model.local.layers] == [(4, 5), (5, 7)]
    assert model(*model.prepare(graph)).shape == (30, 3)
    assert recipe.epochs == 2
    assert factory() is not model


def test_configure_knows_a_graph_by_its_name() -> None:
    graph = easy_graph()
    named = type(graph)(graph.x, graph.edge_index, graph.y, name="squirrel")
    assert configure("nlgcn", named)[0].keywords["hidden_channels"] == 96
    assert configure("nlgcn", graph)[0].keywords["hidden_channels"] == 48


@pytest.mark.parametrize("name", ["nlmlp", "NLMLP", "NlMlp"])
def test_capitals_do_not_matter(name: str) -> None:
    assert load(get_system(name)) is NLMLP


@each_of(
    ("ask", "what", "how"),
    [
        (lambda: get_system("nlgnc"), "no model 'nlgnc'", "Did you mean 'nlgcn'?"),
        (lambda: get_system("transformer"), "no model 'transformer'", "Known names: mlp, gcn, gat"),
        (lambda: resolve("gcn", "", "papr", {}), "no preset 'papr'", "Did you mean 'paper'?"),
        (lambda: resolve("gcn", "", None, {"hiden": 3}), "gcn has no option 'hiden'", "Did you mean 'hidden'?"),
        (lambda: resolve("gcn", "", None, {"kernel_size": 3}), "gcn has no option 'kernel_size'", ""),
        (lambda: resolve("gcn", "", None, {"hidden_channels": 3}), "no option 'hidden_channels'", "'hidden'"),
        (lambda: resolve("nlgcn", "", None, {"epoch": 3}), "nlgcn has no option 'epoch'", "'epochs'"),
    ],
)
def test_unknown_names_suggest_known_ones(ask: Any, what: str, how: str) -> None:
    with pytest.raises(OptionError) as caught:
        ask()
    assert what in caught.value.what
    assert how in caught.value.how
    assert caught.value.how


@each_of(
    ("options", "message"),
    [
        ({"hidden": 0}, "hidden=0"),
        ({"hidden": "wide"}, "hidden='wide'"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"conv_dropout": -0.1}, "conv_dropout=-0.1"),
        ({"kernel_size": 4}, "kernel_size=4"),
        ({"num_convs": 0}, "num_convs=0"),
        ({"order": "alphabetical"}, "order='alphabetical'"),
        ({"embedding": 0}, "embedding=0"),
        ({"local_loss": 2.0}, "local_loss=2"),
        ({"lr": -1}, "lr=-1"),
        ({"pretrain_epochs": 2}, "NLGCN has no pre-training"),
    ],
)
def test_bad_values_speak_before_a_graph_is_read(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        resolve("nlgcn", "chameleon", None, options)


def test_every_system_is_described() -> None:
    for name, system in SYSTEMS.items():
        assert system.name == name == name.lower()
        assert system.summary
        assert system.source
        known = model_options(system).keys() | Recipe.model_fields.keys()
        assert system.defaults.keys() <= known
        assert system.search_space.keys() <= known
        assert system.local is None or system.local in SYSTEMS


def test_every_preset_key_is_an_option_of_some_system() -> None:
    known = set(Recipe.model_fields).union(*(model_options(system) for system in SYSTEMS.values()))
    for row in [*PRESETS.values(), *(published.options for published in PUBLISHED.values())]:
        assert row.keys() <= known
