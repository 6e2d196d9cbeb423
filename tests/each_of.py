"""One test over many rows of data, where a test of each would say no more."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import pytest


def each_of(
    names: str | tuple[str, ...], rows: Iterable[Any], ids: Iterable[str] | Callable[[Any], str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like pytest.mark.parametrize, in one test: all rows are tried, and those that fail are named together.

    Each row has a folder and a monkeypatch of its own; other fixtures are shared. A row that is skipped ends no other.
    """
    keys = (names,) if isinstance(names, str) else names
    rows = [(row,) if isinstance(names, str) else tuple(row) for row in rows]
    labels = (
        [", ".join(map(ids if callable(ids) else repr, row)) for row in rows] if ids is None or callable(ids) else ids
    )
    cases = [(str(label), dict(zip(keys, row, strict=True))) for label, row in zip(labels, rows, strict=True)]
    assert cases, "no rows"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run_all(*args: Any, **fixtures: Any) -> None:
            failures, skipped = [], []
            for number, (label, case) in enumerate(cases):
                with ExitStack() as stack:
                    own = dict(fixtures)
                    if "tmp_path" in own:
                        own["tmp_path"] = fixtures["tmp_path"] / str(number)
                        own["tmp_path"].mkdir()
                    if "monkeypatch" in own:
                        own["monkeypatch"] = stack.enter_context(pytest.MonkeyPatch.context())
                    try:
                        test(*args, **own, **case)
                    except pytest.skip.Exception as reason:
                        skipped.append(reason)
                    except (Exception, pytest.fail.Exception) as error:
                        error.add_note(f"with {label}")
                        failures.append(error)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(cases)} rows", failures)
            if len(skipped) == len(cases):
                raise skipped[0]

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        run_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run_all

    return decorate
