"""Runs the battery: every check on every system with every preset."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.register_assert_rewrite("battery")

from battery import CASES, CHECKS, Case  # noqa: E402


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_battery(check: Callable[[Case], None], case: Case) -> None:
    check(case)
