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
    """A `Run` in a summary."""

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


class StoredMember(TypedDict):
    """A model of a model folder, and its runs."""

    model: str
    model_arguments: dict[str, Any]
    recipe: dict[str, Any]
    runs: Annotated[list[StoredRun], Field(min_length=1, max_length=MOST_RUNS)]


class StoredClassifier(TypedDict):
    """The content of `model.json` of a fitted classifier."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    parameters: dict[str, Any]
    members: Annotated[list[StoredMember], Field(min_length=1, max_length=MOST_RUNS)]
    classes: Annotated[list[Any], Field(min_length=2, max_length=1_000_000)]
    runs: Annotated[list[StoredRun], Field(min_length=1, max_length=MOST_RUNS)]
    decision: dict[str, Any]
    model_: str
    temperatures_: list[Annotated[float, Field(gt=0, allow_inf_nan=False)]]
    num_features_: Whole
    num_nodes_: Whole
    names_hash_: str | None
    weighted_: bool
    verdict_: str | None
    reason_: str | None
    leaderboard_: list[dict[str, Any]]
    weights_: dict[str, Number]
    split_weights_: list[list[Annotated[float, Field(ge=0, le=1)]]]


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


CLASSIFIER = TypeAdapter(StoredClassifier)


def checked_classifier(content: object) -> dict[str, Any]:
    """Return the content of a `model.json` whose lists fit each other; raise a `ValueError` for another one."""
    found: Any = CLASSIFIER.validate_python(content)
    runs, members, weights = found["runs"], found["members"], found["split_weights_"]
    numbers = {run["index"] for run in runs}
    if len(found["temperatures_"]) != len(runs) or len(numbers) != len(runs):
        raise ValueError("the numbers of runs and of temperatures differ")
    if max(numbers) >= len(weights) or {len(row) for row in weights} != {len(members)}:
        raise ValueError("the numbers of weights, members and runs differ")
    for place, member in enumerate(members):
        used = {number for number in numbers if weights[number][place] > 0}
        if not used <= {run["index"] for run in member["runs"]}:
            raise ValueError(f"member {place} lacks a run")
    return dict(found)


def first_fault(error: Exception) -> str:
    """Return one line about an error: of a validation, the place and the reason of its first fault."""
    if isinstance(error, ValidationError):
        wrong: Any = error.errors()[0]
        place = ".".join(map(str, wrong["loc"]))
        return f"{place}: {wrong['msg'][0].lower()}{wrong['msg'][1:]}" if place else str(wrong["msg"])
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
