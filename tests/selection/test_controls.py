"""Controls of non-local models."""

from __future__ import annotations

from typing import Any

import pytest

from nlgnn.errors import OptionError
from nlgnn.models.build import resolve
from nlgnn.selection.controls import with_controls


def test_controls_of_a_non_local_system() -> None:
    options = {"kernel_size": 3, "hidden": 8, "lr": 0.1, "order": "score"}
    variants = with_controls("NLGCN", options)
    assert [variant.label for variant in variants] == ["nlgcn", "gcn", "nlgcn, kernel 1", "nlgcn, random order"]
    assert [variant.slug for variant in variants] == ["nlgcn", "gcn", "nlgcn-kernel-1", "nlgcn-random-order"]
    assert [variant.options for variant in variants] == [
        options,
        {"hidden": 8, "lr": 0.1},  # what the local part has an option for
        options | {"kernel_size": 1},
        options | {"order": "random"},
    ]
    assert options == {"kernel_size": 3, "hidden": 8, "lr": 0.1, "order": "score"}


def test_a_control_is_not_its_own_control() -> None:
    for options in ({"kernel_size": 1}, {"order": "random"}):
        variants = with_controls("nlgcn", options)
        assert [variant.options for variant in variants].count(options) == 1
        assert len({variant.slug for variant in variants}) == len(variants)  # each has a folder of its own


def test_local_systems_have_no_controls() -> None:
    assert with_controls("gat", {"heads": 2}) == [("gat", {"heads": 2})]


def test_unknown_system() -> None:
    with pytest.raises(OptionError, match="no model 'nlgc'"):
        with_controls("nlgc", {})


@pytest.mark.parametrize(
    ("system", "options", "controls"),
    [
        ("nlmlp", {"order": "learned"}, ["kernel 1", "random order", "frozen space"]),
        ("vote-mlp", {}, ["random order", "frozen space"]),
    ],
)
def test_the_controls_of_a_learned_space(system: str, options: dict[str, Any], controls: list[str]) -> None:
    main, local, *others = with_controls(system, options)
    assert (main.label, local.label) == (f"{system}, learned order" if options else system, "mlp")
    assert [other.label for other in others] == [f"{system}, {control}" for control in controls]
    for variant in (main, local, *others):
        resolve(variant.system, "", "robust", variant.options)
