"""Runs the battery: every check on representative models, the structural ones on all others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from each_of import each_of

pytest.register_assert_rewrite("battery")

from battery import CHECKS, REPRESENTATIVES, STRUCTURAL, WHOLE_STACKS, Case, cases, deep_stacks  # noqa: E402


def chosen() -> tuple[list[Case], list[Case]]:
    """Return one case of each representative, and one of every other system with all other forms."""
    first: dict[str, Case] = {}
    forms: list[Case] = []
    for case in cases():
        if case.form:
            forms.append(case)
        else:
            first.setdefault(case.system, case)
    whole = [*(first[system] for system in REPRESENTATIVES), *deep_stacks()[:WHOLE_STACKS]]
    return whole, [*(case for case in first.values() if case.system not in REPRESENTATIVES), *forms]


WHOLE, OTHERS = chosen()


@pytest.mark.parametrize("case", WHOLE, ids=str)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_representatives(check: Callable[[Case], None], case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", OTHERS, ids=str)
@each_of("check", STRUCTURAL, ids=lambda check: check.__name__)
def test_structure_of_the_others(check: Callable[[Case], None], case: Case) -> None:
    check(case)
