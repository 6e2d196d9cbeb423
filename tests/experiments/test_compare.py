"""Controls and the figures of a table, against values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from nlgnn.errors import OptionError
from nlgnn.experiments.compare import paired_difference, paired_mean, row, spread, with_controls
from nlgnn.training.run import Run
from nlgnn.training.systems import resolve


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


def test_attention_has_no_kernel_and_no_order_to_control() -> None:
    variants = with_controls("nlgcn", {"aggregation": "attention"})
    assert [variant.system for variant in variants] == ["nlgcn", "gcn"]


def test_local_systems_have_no_controls() -> None:
    assert with_controls("gat", {"heads": 2}) == [("gat", {"heads": 2})]


def test_unknown_system() -> None:
    with pytest.raises(OptionError, match="no model 'nlgc'"):
        with_controls("nlgc", {})


def test_spread() -> None:
    assert spread([]) is None
    assert str(spread([50.04])) == "50.0"
    assert spread([1.0, 3.0, 5.0]) == (3.0, 2.0)  # the sample's: ((4 + 0 + 4) / 2) ** 0.5
    assert str(spread([1.0, 3.0, 5.0])) == "3.0 ± 2.0"


def test_paired_difference() -> None:
    # differences 2, 4, 6, 8: mean 5, variance 20/3, standard error (20/3/4) ** 0.5
    found = paired_difference([3.0, 6.0, 9.0, 12.0], [1.0, 2.0, 3.0, 4.0])
    assert found is not None
    assert found.mean == 5
    assert found.std == pytest.approx((5 / 3) ** 0.5)


def test_paired_difference_leaves_out_pairs_with_a_failure() -> None:
    assert paired_difference([3.0, None, 9.0, 7.0], [1.0, 2.0, 5.0, None]) == (3.0, pytest.approx(1.0))
    assert paired_difference([3.0, None], [1.0, 2.0]) is None
    with pytest.raises(ValueError, match=r"shorter|longer"):
        paired_difference([1.0], [1.0, 2.0])


def finished(index: int, val: float, test: float, **given: Any) -> Run:
    return Run(index, index, "random-60", index, val={"accuracy": val}, test={"accuracy": test}, **given)


def test_row_leaves_failed_runs_out_and_names_them() -> None:
    runs = [
        finished(0, 50.0, 40.0, epochs=10, seconds=0.1),
        Run(1, 1, "random-60", 1, failure="run 1: the loss became nan"),
        finished(2, 60.0, 60.0, epochs=10, seconds=0.3),
    ]
    found = row("nlgcn", runs, "accuracy")
    assert found.label == "nlgcn"
    assert found.val == (55.0, pytest.approx(50**0.5))
    assert found.test == (50.0, pytest.approx(200**0.5))
    assert found.ms_per_epoch == pytest.approx(20.0)
    assert (found.runs, found.failures) == (2, ["run 1: the loss became nan"])


def test_row_without_test_nodes() -> None:
    run = Run(0, 0, "column", 0, val={"accuracy": 50.0}, epochs=1)
    assert row("gcn", [run], "accuracy")[1:3] == ((50.0, None), None)


def test_paired_mean() -> None:
    assert paired_mean([3.0, None, 5.0], [1.0, 2.0, 1.0]) == 3.0
    assert paired_mean([None], [1.0]) is None


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({"order": "metric"}, ["nlmlp, random order", "nlmlp, frozen metric"]),
        (
            {"order": "metric", "readout": "conv"},
            ["nlmlp, kernel 1", "nlmlp, random order", "nlmlp, frozen metric"],
        ),
    ],
)
def test_the_controls_of_a_learned_order(options: dict[str, Any], labels: list[str]) -> None:
    main, local, *controls = with_controls("nlmlp", options)
    assert (main.label, local.label) == ("nlmlp, learned order", "mlp")
    assert [control.label for control in controls] == labels
    readouts = {control.options["readout"] for control in controls if control.options["order"] == "random"}
    assert readouts == {options.get("readout", "vote")}
    for variant in (main, *controls):
        resolve(variant.system, "", "robust", variant.options)
