"""Options are declared once: read off the classes, with the words of their docstrings."""

from __future__ import annotations

import inspect
from typing import Any, Literal, get_args, get_origin

import pytest
import torch

from each_of import each_of
from nlgnn.datasets.synthetic import planted_order_graph
from nlgnn.errors import OptionError
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import check_given, configure, resolve
from nlgnn.models.options import all_model_options, given_sizes, idle_options, keyword_of, model_options, refuse_idle
from nlgnn.models.registry import SYSTEMS, load
from nlgnn.nn import GCN
from nlgnn.nn.learned_order import LearnedOrder
from nlgnn.nn.non_local import NonLocal
from nlgnn.shallow import ShallowModel
from nlgnn.training.fit import fit
from nlgnn.training.recipe import Recipe

SYSTEM_NAMES = list(SYSTEMS)
LOCAL_OF = {name: system.local for name, system in SYSTEMS.items() if system.local}

WRAPPER = {
    "kernel_size",
    "num_convs",
    "conv_dropout",
    "score_bias",
    "multiply_score",
    "standardise_score",
    "zero_init",
    "order",
    "head",
    "local_loss",
}
SPACE = {
    "space_dim",
    "space_projections",
    "space_radius",
    "space_perplexity",
    "space_shrinkage",
    "space_signs",
    "space_trained",
    "space_input",
    "space_descriptions",
    "space_votes",
    "space_lr",
}
NON_LOCAL = [name for name, system in SYSTEMS.items() if system.kind == "non-local"]
VOTING = [name for name, system in SYSTEMS.items() if system.kind == "vote"]


def test_the_options_of_gcn() -> None:
    options = model_options(SYSTEMS["gcn"])
    deep = ["norm", "residual", "jumping", "row_norm", "label_input"]
    assert list(options) == ["hidden", "num_layers", "dropout", "input_dropout", *deep]
    assert (options["num_layers"].type, options["num_layers"].default) == (int, 2)
    assert (options["input_dropout"].type, options["input_dropout"].default) == (float | None, None)
    assert options["dropout"].help == "Share of hidden units dropped in training."


@each_of("name", NON_LOCAL)
def test_a_non_local_system_has_the_options_of_its_local_part_and_of_the_wrapper(name: str) -> None:
    options, local = model_options(SYSTEMS[name]), model_options(SYSTEMS[LOCAL_OF[name]])
    assert options.keys() == local.keys() | WRAPPER | SPACE | {"embedding", "frozen"}
    for option in local:
        assert options[option] == local[option]
    signature = inspect.signature(NonLocal).parameters
    for option in WRAPPER:
        assert options[option].default == signature[option].default
    of_space = inspect.signature(LearnedOrder).parameters
    for option in SPACE:
        assert options[option].default == of_space[option.removeprefix("space_")].default
    assert options["embedding"].default is None  # as many as classes; the wrapper itself must be told


@each_of("name", VOTING)
def test_a_voting_system_has_the_options_of_its_local_part_and_of_the_space(name: str) -> None:
    local = model_options(SYSTEMS[LOCAL_OF[name]])
    assert model_options(SYSTEMS[name]).keys() == local.keys() | SPACE | {"order", "frozen"}


def test_modules_are_no_options() -> None:
    assert not {"local", "score", "convs", "in_channels", "out_channels"} & all_model_options().keys()


@each_of("name", SYSTEM_NAMES)
def test_recipe_and_model_share_no_name(name: str) -> None:
    assert not model_options(SYSTEMS[name]).keys() & Recipe.model_fields.keys()


@each_of("name", SYSTEM_NAMES)
def test_every_option_has_words_and_a_type(name: str) -> None:
    for option in model_options(SYSTEMS[name]).values():
        assert len(option.help) > 10
        assert "\n" not in option.help
        assert option.help.endswith(".")
        assert option.type not in (None, Any, inspect.Parameter.empty)
        assert option.default is None or option.check(option.default) == option.default


@each_of("name", SYSTEM_NAMES)
def test_every_option_is_taken_by_the_class(name: str) -> None:
    system = SYSTEMS[name]
    defaults = {option: of.default for option, of in model_options(system).items() if of.default is not None}
    arguments = {keyword_of(option): value for option, value in defaults.items()}
    sizes = given_sizes(system, arguments, in_channels=3, out_channels=2, num_nodes=5)
    width = {"hidden_channels": 4} if "hidden" in model_options(system) else {}
    assert isinstance(load(system)(**sizes, **width | arguments), torch.nn.Module | ShallowModel)


def test_all_options_are_the_union() -> None:
    assert all_model_options().keys() == set().union(*(model_options(system) for system in SYSTEMS.values()))


def test_options_of_one_name_mean_one_thing() -> None:
    """One flag serves all systems: the same type, and a choice that any of them takes."""
    together = all_model_options()
    for system in SYSTEMS.values():
        for name, option in model_options(system).items():
            flag = together[name]
            if get_origin(option.type) is Literal:
                assert set(get_args(option.type)) <= set(get_args(flag.type))
            else:
                assert _plain(option.type) == _plain(flag.type), (system.name, name)
            assert flag.default in (None, system.defaults.get(name, option.default))


def _plain(annotation: Any) -> set[Any]:
    return set(get_args(annotation) or [annotation]) - {type(None)}


@each_of(
    ("option", "value", "expected"),
    [
        ("hidden", "48", 48),  # as it comes from a command line
        ("dropout", 0, 0.0),
        ("dropout", "0.5", 0.5),
        ("score_bias", "false", False),
        ("order", "random", "random"),
        ("embedding", None, None),
    ],
)
def test_values_are_converted(option: str, value: Any, expected: Any) -> None:
    found = model_options(SYSTEMS["nlgcn"])[option].check(value)
    assert found == expected
    assert type(found) is type(expected)


@each_of(
    ("option", "value"),
    [("hidden", 4.5), ("hidden", "many"), ("dropout", "half"), ("score_bias", "perhaps"), ("order", "up")],
)
def test_a_value_of_another_type_is_named(option: str, value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        model_options(SYSTEMS["nlgcn"])[option].check(value)
    assert caught.value.what.startswith(f"{option}={value!r}: ")
    assert caught.value.how.startswith(f"{option}: ")


def test_short_names() -> None:
    assert keyword_of("hidden") == "hidden_channels"
    assert keyword_of("embedding") == "embedding_channels"
    assert keyword_of("heads") == "heads"
    assert "hidden_channels" in inspect.signature(GCN).parameters


# Each option of the wrapper and of its metric with a value that is not its default.
OTHER_VALUES: dict[str, Any] = {
    "kernel_size": 3,
    "num_convs": 1,
    "conv_dropout": 0.5,
    "score_bias": True,
    "multiply_score": False,
    "standardise_score": True,
    "zero_init": True,
    "order": "random",
    "head": "residual",
    "local_loss": 0.5,
    "frozen": True,
    "space_dim": 4,
    "space_projections": 2,
    "space_radius": 4,
    "space_perplexity": 2.0,
    "space_shrinkage": 0.5,
    "space_signs": 3,
    "space_input": "adjacency",
    "space_descriptions": "links",
    "space_votes": "labels",
    "space_lr": 0.1,
}


@pytest.mark.parametrize("beside", [{}, {"order": "random"}, {"order": "learned"}], ids=str)
def test_an_option_is_idle_where_training_with_it_is_the_same(beside: dict[str, str]) -> None:
    assert set(OTHER_VALUES) == WRAPPER | SPACE | {"frozen"}
    graph = planted_order_graph(num_groups=6, group_size=6)
    splits = make_splits(graph, "random-60", 1)

    def curves(**options: Any) -> dict[str, list[float]]:
        short = {"epochs": 3, "hidden": 4, "dropout": 0.0, "features": "none", "lr": 0.1, "device": "cpu"}
        factory, recipe = configure("nlmlp", graph, "paper", **{**short, **beside, **options})
        return fit(factory, graph, splits, recipe, progress=False)[0].curves

    usual = curves()
    tried = set(OTHER_VALUES) - ({"order"} if "order" in beside else set())
    changes_nothing = {name for name in tried if curves(**{name: OTHER_VALUES[name]}) == usual}
    assert (
        changes_nothing
        == idle_options(SYSTEMS["nlmlp"], {name: (value,) for name, value in beside.items()}).keys() & tried
    )


def test_what_is_searched_over_is_idle_only_where_it_is_in_every_setting() -> None:
    system = SYSTEMS["nlmlp"]
    assert "score_bias" in idle_options(system, {"order": ("learned",)})
    assert "score_bias" not in idle_options(system, {"order": ("learned", "score")})
    assert "space_dim" not in idle_options(system, {"order": ("learned", "score")})
    assert idle_options(SYSTEMS["vote-mlp"], {"order": ("random",)}).keys() == {"space_descriptions", "space_trained"}
    refuse_idle(system, {"order": ("learned", "score"), "space_dim": (4, 8), "score_bias": (True, False)})
    with pytest.raises(OptionError, match="space_dim=4,8 changes nothing"):
        refuse_idle(system, {"order": ("score",), "space_dim": (4, 8)})


def test_idle_options_are_refused_of_users_alone() -> None:
    """Presets hold some."""
    idle = {"order": "learned", "local_loss": 0.1}
    resolve("nlmlp", "texas", "robust", idle)
    check_given("nlmlp", "texas", "robust", {"order": "learned"})  # the preset sets local_loss and others
    with pytest.raises(OptionError, match=r"local_loss=0\.1 changes nothing: a learned order") as caught:
        check_given("nlmlp", "texas", "robust", idle)
    assert caught.value.how == "Leave it out, or use order='score'."
    with pytest.raises(OptionError, match="mlp has no option 'space_dim'"):  # which is what is wrong
        check_given("mlp", "texas", None, {"space_dim": 8})
