"""Runs the battery: every check on representative models, the structural ones on all others.

Models without gradient training pass all checks that apply to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from each_of import each_of

pytest.register_assert_rewrite("battery", "rank_battery", "shallow_battery")

from battery import CHECKS, REPRESENTATIVES, STRUCTURAL, Case, cases  # noqa: E402
from rank_battery import check_over_ranks  # noqa: E402
from shallow_battery import SHALLOW, shallow_cases  # noqa: E402

# Deep stacks. All checks run on the first three, the structural ones on the others.
DEEP_STACKS: list[tuple[str, dict[str, Any]]] = [
    ("gcn", {"norm": "batch", "residual": True, "num_layers": 3}),
    ("sage", {"norm": "batch", "residual": True, "jumping": "max", "label_input": 0.5}),
    ("nlgcn", {"norm": "layer", "jumping": "cat", "label_input": 0.5}),
    ("mlp", {"norm": "batch", "residual": True, "jumping": "cat"}),
    ("gat", {"norm": "batch", "residual": True, "label_input": 0.5}),
    ("dirgcn", {"row_norm": True, "jumping": "max", "alpha": 1.0}),
    ("nl-sage", {"norm": "batch", "residual": True}),
    ("vote-gcn", {"norm": "batch", "residual": True}),
]
WHOLE_STACKS = 3


def chosen() -> tuple[list[Case], list[Case]]:
    """Return one case of each representative, and one of every other system with all other forms."""
    first: dict[str, Case] = {}
    forms: list[Case] = []
    for case in cases():
        if case.form:
            forms.append(case)
        else:
            first.setdefault(case.system, case)
    stacks = [Case(system, "paper", tuple(form.items())) for system, form in DEEP_STACKS]
    whole = [*(first[system] for system in REPRESENTATIVES), *stacks[:WHOLE_STACKS]]
    forms += stacks[WHOLE_STACKS:]
    return whole, [*(case for case in first.values() if case.system not in REPRESENTATIVES), *forms]


WHOLE, OTHERS = chosen()


@pytest.mark.parametrize("case", WHOLE, ids=str)
@pytest.mark.parametrize("check", [*CHECKS, check_over_ranks], ids=lambda check: check.__name__.removeprefix("check_"))
def test_representatives(check: Callable[[Case], None], case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", OTHERS, ids=str)
@each_of("check", [*STRUCTURAL, check_over_ranks], ids=lambda check: check.__name__)
def test_structure_of_the_others(check: Callable[[Case], None], case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", shallow_cases(), ids=str)
@pytest.mark.parametrize("check", SHALLOW, ids=lambda check: check.__name__.removeprefix("check_"))
def test_shallow_models(check: Callable[[Case], None], case: Case) -> None:
    check(case)
