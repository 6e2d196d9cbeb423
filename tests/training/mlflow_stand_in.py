"""A small module in the place of MLflow: the few calls that tracking makes, kept in memory."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple


class Metric(NamedTuple):
    key: str
    value: float
    timestamp: int
    step: int


class Param(NamedTuple):
    key: str
    value: str


class Server:
    """What was told to it. `calls_left` is how many more calls it answers."""

    def __init__(self) -> None:
        self.runs: dict[str, Any] = {}
        self.experiments: dict[str, str] = {}
        self.largest_batch = 0
        self.calls_left = 10_000
        self._numbers = count()

    def called(self) -> None:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise ConnectionError("http://user:secret@there is gone.\nA second line")

    def new_number(self) -> str:
        return str(next(self._numbers))


def stand_in(server: Server) -> dict[str, ModuleType]:
    """Modules by their names, as `sys.modules` has them."""

    class MlflowClient:
        def __init__(self, tracking_uri: str) -> None:
            server.called()

        def get_experiment_by_name(self, name: str) -> Any:
            server.called()
            found = server.experiments.get(name)
            return None if found is None else SimpleNamespace(experiment_id=found)

        def create_experiment(self, name: str) -> str:
            server.called()
            server.experiments[name] = server.new_number()
            return server.experiments[name]

        def create_run(self, experiment_id: str, run_name: str, tags: dict[str, str]) -> Any:
            server.called()
            info = SimpleNamespace(run_id=server.new_number(), status="RUNNING", run_name=run_name)
            run = SimpleNamespace(info=info, tags=tags, params={}, metrics=[])
            server.runs[info.run_id] = run
            return run

        def search_runs(self, experiment_ids: list[str], filter_string: str) -> list[Any]:
            server.called()
            tag, _, value = filter_string.removeprefix("tags.").partition(" = ")
            return [run for run in server.runs.values() if run.tags.get(tag.strip("`")) == value.strip("'")]

        def delete_run(self, run_id: str) -> None:
            server.called()
            del server.runs[run_id]

        def log_batch(self, run_id: str, metrics: Any = (), params: Any = ()) -> None:
            server.called()
            server.largest_batch = max(server.largest_batch, len(metrics), len(params))
            server.runs[run_id].params |= {one.key: one.value for one in params}
            server.runs[run_id].metrics += metrics

        def set_terminated(self, run_id: str) -> None:
            server.called()
            server.runs[run_id].info.status = "FINISHED"

    package, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    package.__spec__ = ModuleSpec("mlflow", None)  # what find_spec looks for
    vars(package).update(MlflowClient=MlflowClient, entities=entities)
    vars(entities).update(Metric=Metric, Param=Param)
    return {"mlflow": package, "mlflow.entities": entities}
