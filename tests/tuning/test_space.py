"""What a search tries."""

from __future__ import annotations

from itertools import product

import pytest

from each_of import each_of
from nlgnn.errors import OptionError
from nlgnn.models.options import setting_words
from nlgnn.models.registry import SYSTEMS
from nlgnn.tuning.space import NOT_SEARCHED, Space, check_space, default_setting, read_space

SPACE = Space({"hidden": (16, 48), "lr": (0.01, 0.05, 0.1), "dropout": (0.0, 0.5)}, {"epochs": 5})


def test_the_whole_grid_is_every_combination_once() -> None:
    wanted = [dict(zip(SPACE.searched, values, strict=True)) for values in product(*SPACE.searched.values())]
    assert SPACE.settings(None) == wanted
    assert SPACE.settings(1000) == wanted
    assert SPACE.size == len(wanted) == 12


def test_a_sample_is_the_same_every_time_and_grows() -> None:
    few, more = SPACE.settings(4), SPACE.settings(9)
    assert few == SPACE.settings(4) == more[:4]
    assert len({setting_words(setting) for setting in more}) == 9
    assert all(setting in SPACE.settings(None) for setting in more)


def test_a_given_setting_comes_first_and_only_once() -> None:
    first = {"hidden": 48, "lr": 0.05, "dropout": 0.0}
    assert SPACE.settings(1, first) == [first]
    assert all(SPACE.setting(SPACE.place(setting)) == setting for setting in SPACE.settings(None))
    for number in (5, None):
        found = SPACE.settings(number, first)
        assert found[0] == first
        assert found.count(first) == 1
        assert len(found) == (number or SPACE.size)


def test_the_default_setting_is_that_of_a_training_without_options() -> None:
    trees = default_setting("trees", "graph", None, read_space("trees", {}))
    assert trees == {"neighbours": "all", "learning_rate": 0.05, "num_leaves": 15, "column_share": 0.5}
    published = default_setting("nlmlp", "texas", None, read_space("nlmlp", {}))
    wanted = {"hidden": 48, "dropout": 0.5, "weight_decay": 5e-4, "lr": 0.05, "kernel_size": 5}
    assert published == wanted
    given = read_space("trees", {"learning_rate": [0.3, 0.2], "neighbours": "none"})
    assert default_setting("trees", "graph", None, given)["learning_rate"] == 0.3


def test_every_value_occurs_among_those_that_are_checked() -> None:
    seen = SPACE.each_value()
    assert {name: {setting[name] for setting in seen} for name in SPACE.searched} == {
        name: set(values) for name, values in SPACE.searched.items()
    }


def test_lists_are_searched_and_single_values_fixed() -> None:
    options = {"hidden": "16, 48", "lr": "0.05", "weight_decay": [0, 5e-4], "patience": 20, "dropout": (0.5,)}
    space = read_space("nlmlp", options)
    assert dict(space.searched) == {"hidden": (16, 48), "weight_decay": (0.0, 5e-4), "kernel_size": (3, 5, 7)}
    assert space.fixed == {"lr": 0.05, "patience": 20, "dropout": 0.5}


def test_the_order_of_keywords_says_nothing() -> None:
    one = read_space("nlmlp", {"window": [1, 2], "patience": [20, 30, 40], "lr": 0.05, "features": "none"})
    other = read_space("nlmlp", {"features": "none", "lr": 0.05, "patience": [20, 30, 40], "window": [1, 2]})
    assert one.settings(5) == other.settings(5)
    assert [setting_words(setting) for setting in one.settings(5)] == [
        setting_words(setting) for setting in other.settings(5)
    ]
    assert list(one.fixed) == list(other.fixed)  # the command that a search ends with


def test_every_value_is_checked() -> None:
    check_space("nlmlp", "graph", None, {"dropout": [0.0, 0.5]})
    with pytest.raises(OptionError, match=r"dropout=1\.5"):
        check_space("nlmlp", "graph", None, {"dropout": [0.0, 1.5]})
    with pytest.raises(OptionError, match="nlmlp has no option 'heads'"):
        check_space("nlmlp", "graph", None, {"heads": [1, 2]})


@each_of("system", ["mlp", "nlgcn", "vote-gat", "gcnii", "linkx"])
def test_every_system_is_searched_over_what_it_says(system: str) -> None:
    space = read_space(system, {})
    assert {name: list(values) for name, values in space.searched.items()} == {
        name: list(values) for name, values in SYSTEMS[system].search_space.items()
    }
    assert ("kernel_size" in space.searched) == (SYSTEMS[system].kind == "non-local")


def test_text_takes_the_type_of_its_option() -> None:
    space = read_space("gcnii", {"own_weights": "true,false", "features": "none,unit-l2", "num_layers": "2,2,4"})
    assert space.searched["own_weights"] == (True, False)
    assert space.searched["features"] == ("none", "unit-l2")
    assert space.searched["num_layers"] == (2, 4)  # none twice


@each_of(
    ("options", "words"),
    [
        ({"hidden": "16,abc"}, "hidden='abc'"),
        ({"lr": "0.1,-1"}, "lr='-1'"),
        ({"hidden": ","}, "hidden has no values"),
        ({"lr": []}, "lr has no values"),
        *(({name: "1,2"}, name) for name in sorted(NOT_SEARCHED - {"metric", "memory", "selection"})),
        ({"hidden": [[16, 48]]}, r"hidden=\[16, 48\]"),
        ({"heads": [[1, 2], [3]]}, r"heads=\[\[1, 2\], \[3\]\] is neither"),
        ({"heads": {"a": 1}}, "heads={'a': 1} is neither"),
        ({"metric": "accuracy,macro-f1"}, "metric cannot be searched over"),
        ({"selection": "first-best,lowest-loss"}, "selection cannot be searched over"),
        ({"memory": "1GiB,2GiB"}, "memory cannot be searched over"),
    ],
)
def test_what_cannot_be_searched_is_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read_space("nlmlp", options)


def test_what_changes_nothing_is_neither_searched_over_nor_taken() -> None:
    assert read_space("nlmlp", {"order": "learned", "space_dim": "4,16"}).searched["space_dim"] == (4, 16)
    check_space("nlmlp", "graph", None, {"order": "learned,score", "space_dim": "4,8", "kernel_size": "3,5"})
    with pytest.raises(OptionError, match="space_dim=4,8 changes nothing: no order is learned"):
        check_space("nlmlp", "graph", None, {"space_dim": "4,8"})
    with pytest.raises(OptionError, match=r"local_loss=0\.5 changes nothing"):
        check_space("nlmlp", "graph", None, {"order": "learned", "local_loss": 0.5})
