"""A loop over rows hides none that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from each_of import each_of


def test_all_rows_that_fail_are_named(tmp_path: Path) -> None:
    tried = []

    @each_of(("number", "wanted"), [(1, 1), (2, 3), (4, 4), (5, None)], ids=["a", "b", "c", "d"])
    def check(number: int, wanted: int | None, tmp_path: Path) -> None:
        assert not list(tmp_path.iterdir())
        (tmp_path / "file").touch()
        tried.append(number)
        if wanted is None:
            pytest.fail("none")
        assert number == wanted

    with pytest.raises(BaseExceptionGroup, match="2 of 4 rows") as caught:
        check(tmp_path=tmp_path)
    assert [error.__notes__ for error in caught.value.exceptions] == [["with b"], ["with d"]]
    assert tried == [1, 2, 4, 5]


def test_one_row_that_fails_is_raised_as_it_is() -> None:
    @each_of("number", [1, 2])
    def check(number: int) -> None:
        assert number == 1

    with pytest.raises(AssertionError):
        check()


def test_a_row_that_is_skipped_ends_no_other() -> None:
    @each_of("number", [1, 2])
    def check(number: int) -> None:
        if number == 1:
            pytest.skip("of no use")
        assert number == 1

    with pytest.raises(AssertionError):
        check()


def test_where_all_rows_are_skipped_so_is_the_test() -> None:
    @each_of("number", [1, 2])
    def check(number: int) -> None:
        pytest.skip(f"of no use: {number}")

    with pytest.raises(pytest.skip.Exception, match="of no use: 1"):
        check()
