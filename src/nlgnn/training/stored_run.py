"""The form of what run folders store: bounded types that JSON files are validated with before anything is built."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import NotRequired, TypedDict  # noqa: UP035, pydantic needs them on Python 3.11

from nlgnn.graph.splits import MOST_RUNS

STRICT = ConfigDict(strict=True, extra="forbid")
Number = Annotated[float, Field(allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0)]
Figures = dict[str, Number]


class StoredRun(TypedDict):
    """What a summary holds of a `Run`."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    index: Annotated[int, Field(ge=0, lt=MOST_RUNS)]
    seed: Whole
    protocol: str
    split: Whole
    epochs: NotRequired[Whole]
    chosen_epoch: NotRequired[Whole]
    seconds: NotRequired[Annotated[float, Field(ge=0, allow_inf_nan=False)]]
    val: NotRequired[Figures]
    test: NotRequired[Figures]
    failure: NotRequired[str | None]
    choices: NotRequired[dict[str, str | Number]]


class Summary(TypedDict):
    """The content of `summary.json`."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    format_version: Whole
    identity: str | None
    weights: dict[str, str]
    runs: Annotated[list[StoredRun], Field(max_length=MOST_RUNS)]
    execution: NotRequired[list[dict[str, Whole]]]


SUMMARY = TypeAdapter(Summary)
WEIGHTS = TypeAdapter(Annotated[list[list[Annotated[float, Field(ge=0, le=1)]]], Field(max_length=MOST_RUNS)])
RUNS = TypeAdapter(Annotated[list[StoredRun], Field(max_length=MOST_RUNS)])
CURVE_ROW = TypeAdapter(dict[str, Number], config=ConfigDict(strict=True))
STATES = TypeAdapter(dict[Annotated[int, Field(ge=0, lt=MOST_RUNS)], tuple[Number, dict[str, list[Number]]]])


def first_fault(error: Exception) -> str:
    """Return one line about an error: of a validation, the place and the reason of its first fault."""
    if isinstance(error, ValidationError):
        wrong: Any = error.errors()[0]
        place = ".".join(map(str, wrong["loc"]))
        return f"{place}: {wrong['msg'][0].lower()}{wrong['msg'][1:]}" if place else str(wrong["msg"])
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
