"""NodeClassifier: a model of this package as scikit-learn knows them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils.validation import check_is_fitted

from nlgnn.errors import DataError, OptionError, RunFolderError
from nlgnn.experiments.auto import choose_model
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.training.execution import model_like
from nlgnn.training.fit import fit, predict
from nlgnn.training.model_folder import ModelFolder
from nlgnn.training.prediction import temperatures, together, without_weights
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Run
from nlgnn.training.systems import configure

VALIDATION_SHARE = 0.25
AUTO = "auto"


class NodeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns the labels of some nodes of a graph and tells those of all.

    `NodeClassifier().fit(graph)` learns from the labels that a graph has; `NodeClassifier(graph=graph).fit(nodes, y)`
    from those given for some nodes, and looks at no other, so that it goes into `cross_val_score` and grid searches
    over node numbers.

    Args:
        model: one of `nlgnn models`, or "auto": what a diagnosis of the graph says, with the gate.
        graph: the graph that node numbers are of.
        preset: paper, released or robust; by default the one that suits the graph.
        n_runs: models that are trained, each on its own division of the labelled nodes into training and validation;
            their mean is the prediction.
        class_weight: None, or "balanced": every class counts alike.
        random_state: the seed of the first run.
        options: further options of the model and its training, by the names of `nlgnn train`.
        progress: whether a bar is drawn.
    """

    def __init__(
        self,
        model: str = AUTO,
        *,
        graph: Graph | None = None,
        preset: str | None = None,
        n_runs: int = 5,
        class_weight: str | None = None,
        random_state: int = 0,
        options: Mapping[str, Any] | None = None,
        progress: bool = False,
    ) -> None:
        self.model = model
        self.graph = graph
        self.preset = preset
        self.n_runs = n_runs
        self.class_weight = class_weight
        self.random_state = random_state
        self.options = options
        self.progress = progress

    def fit(self, X: Graph | Sequence[int] | NDArray[np.integer], y: object = None) -> NodeClassifier:
        """Learn from a graph with labels, or from the labels `y` of the nodes `X` of `self.graph`."""
        if not isinstance(self.model, str) or self.n_runs < 1:
            raise OptionError(f"model={self.model!r}, n_runs={self.n_runs}.", "Give a name, and at least one run.")
        given = {"seed": self.random_state, **(self.options or {})}
        if self.class_weight is not None:
            given["class_weight"] = self.class_weight
        Recipe(seed=given["seed"], class_weight=given.get("class_weight", "none"))  # a bad value speaks now
        if isinstance(X, Graph):
            if y is not None:
                raise OptionError("a graph has its own labels.", "Leave y out, or give node numbers and their labels.")
            graph, classes = X, np.array(X.class_names)
        else:
            graph, classes = self._relabelled(X, y)
        splits = learning_splits(graph, self.n_runs, given["seed"])
        divided = replace(graph, splits={"column": tuple(splits)})
        model, verdict = self.model, None
        if model.lower() == AUTO:
            choice = choose_model(divided, "column", preset=self.preset, progress=self.progress, **given)
            model, given, verdict = choice.model, choice.options, choice.diagnosis.verdict.words
        factory, recipe = configure(model, divided, self.preset, **given)
        runs = choice.runs if verdict else fit(factory, divided, splits, recipe, progress=self.progress)
        runs = [run for run in runs if run.failure is None]
        each = predict(factory, graph, runs, recipe).numpy()
        # All at once, at the end: a fit that fails leaves what was there before.
        self.model_, self.factory_, self.recipe_, self.runs_ = model, factory, recipe, runs
        self.classes_, self.verdict_, self.graph_ = classes, verdict, graph
        self.temperatures_ = temperatures(each, runs, graph, splits)
        self.num_features_, self.num_nodes_ = graph.num_features, graph.num_nodes
        self.names_hash_ = _names_hash(graph)
        self.weighted_ = graph.edge_weight is not None
        return self

    def _relabelled(self, nodes: object, y: object) -> tuple[Graph, NDArray[Any]]:
        """The graph with the labels given and no others, since what is held back must not be seen; and the classes."""
        if self.graph is None:
            raise OptionError("node numbers are of no graph.", "Give it: NodeClassifier(graph=...), or fit a Graph.")
        numbers, labels = node_numbers(nodes, self.graph.num_nodes), np.asarray(y)
        if labels.shape != numbers.shape:
            raise DataError(f"{len(numbers)} nodes, but labels of shape {labels.shape}.", "Give one label a node.")
        classes, codes = np.unique(labels, return_inverse=True)
        known = np.full(self.graph.num_nodes, -1)
        known[numbers] = codes
        if (known[numbers] != codes).any():
            raise DataError("a node is given twice, with different labels.", "Give one label a node.")
        names = tuple(str(name) for name in classes)
        return replace(self.graph, y=known, class_names=names, splits={}), classes

    def predict_proba(self, X: Graph | Sequence[int] | NDArray[np.integer] | None = None) -> NDArray[np.floating]:
        """Calibrated probabilities, `[nodes, classes]`: of a graph's nodes, or of some of the one it was fitted on."""
        check_is_fitted(self)
        graph = self._checked(X if isinstance(X, Graph) else self.graph_)
        each = predict(self.factory_, graph, self.runs_, self.recipe_).numpy()
        mean = together(each, self.temperatures_)
        if X is None or isinstance(X, Graph):
            return mean
        chosen: NDArray[np.floating] = mean[node_numbers(X, graph.num_nodes)]
        return chosen

    def predict(self, X: Graph | Sequence[int] | NDArray[np.integer] | None = None) -> NDArray[Any]:
        """The likeliest class of each node, as `fit` was given it."""
        places = self.predict_proba(X).argmax(1)
        chosen: NDArray[Any] = self.classes_[places]
        return chosen

    def score(
        self, X: Graph | Sequence[int] | NDArray[np.integer], y: object = None, sample_weight: Any = None
    ) -> float:
        """Accuracy, a share: of the labels that a graph has, or of those given.

        Of the graph that it was fitted on, most of these labels were learned from: hold some back to know more.
        """
        from sklearn.metrics import accuracy_score

        if isinstance(X, Graph):
            if y is not None or sample_weight is not None or not X.labelled.any():
                raise OptionError(
                    "a graph is scored by its own labels.", "Give labels in the graph, or node numbers and y."
                )
            known = X.labelled
            names = np.array(X.class_names)[X.y[known]]
            return float(accuracy_score(names, self.predict(X).astype(str)[known]))
        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def _checked(self, graph: Graph) -> Graph:
        """One that the model can be asked about; without weights of edges where it was fitted without."""
        if graph.num_features != self.num_features_:
            raise DataError(
                f"graph {graph.name!r} has {graph.num_features} features; the model has {self.num_features_}.",
                "Encode new nodes as the fitted ones were.",
            )
        others = graph.num_nodes != self.num_nodes_ or self.names_hash_ not in (None, _names_hash(graph))
        if others and getattr(model_like(self.factory_), "identifies_nodes", False):
            raise DataError(
                f"{self.model_} knows nodes by their number or by their row of the adjacency matrix: it cannot tell "
                "the labels of nodes that it has not seen.",
                "Fit a model that reads features alone, such as nlgcn or nlmlp.",
            )
        unexpected = graph.edge_weight is not None and not self.weighted_
        return without_weights(graph, self.model_) if unexpected else graph

    def save(self, path: str | Path) -> None:
        """Write the fitted model as a folder of JSON and safetensors. The graph is not in it."""
        check_is_fitted(self)
        parameters = {name: value for name, value in self.get_params().items() if name != "graph"}
        ModelFolder.write(
            Path(path),
            {
                "parameters": parameters,
                "model": self.model_,
                "model_arguments": self.factory_.keywords,
                "recipe": self.recipe_.model_dump(),
                "classes": self.classes_.tolist(),
                "temperatures": self.temperatures_,
                "features": self.num_features_,
                "nodes": self.num_nodes_,
                "names_hash": self.names_hash_,
                "weighted": self.weighted_,
                "verdict": self.verdict_,
                "runs": [run.summary() for run in self.runs_],
            },
            [run.state for run in self.runs_],
        )

    @classmethod
    def load(cls, path: str | Path, graph: Graph) -> NodeClassifier:
        """A fitted model, for the graph that it was fitted on or one with the same features."""
        from nlgnn.training.systems import get_system
        from nlgnn.training.systems import load as load_system

        saved, states = ModelFolder.read(Path(path))
        try:
            made = cls(**saved["parameters"], graph=graph)
            made.model_ = saved["model"]
            made.factory_ = partial(load_system(get_system(made.model_)), **saved["model_arguments"])
            made.recipe_ = Recipe(**saved["recipe"])
            made.classes_, made.temperatures_ = np.array(saved["classes"]), saved["temperatures"]
            made.num_features_, made.num_nodes_ = saved["features"], saved["nodes"]
            made.names_hash_ = saved.get("names_hash")  # older folders have none
            made.verdict_ = saved.get("verdict")
            made.weighted_ = saved.get("weighted", False)  # older versions, which do not say, did not look at weights
            made.runs_ = [Run(**{**run, "state": state}) for run, state in zip(saved["runs"], states, strict=True)]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunFolderError(
                f"{path}/model.json cannot be used: {error}.", "Restore the file, or fit again."
            ) from None
        made.graph_ = made._checked(graph)
        return made

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "runs_")


def learning_splits(graph: Graph, runs: int, seed: int) -> list[Split]:
    """Labelled nodes divided into training and validation, by class, another way for each run.

    Splits that came with a graph (protocol column) are taken as they are.
    """
    if "column" in graph.splits:
        fixed = graph.splits["column"]
        return [fixed[run % len(fixed)] for run in range(runs)]
    nodes = np.flatnonzero(graph.labelled)
    sizes = np.bincount(graph.y[nodes], minlength=graph.num_classes)
    # A class of one node can only be learned from; it goes to training whatever the lot says.
    alone = np.isin(graph.y[nodes], np.flatnonzero(sizes == 1))
    drawn = nodes[~alone]
    if len(np.unique(graph.y[drawn])) < 2:
        raise DataError(f"graph {graph.name!r}: fewer than two classes have two labelled nodes.", "Label more nodes.")
    held_back = max(len(np.unique(graph.y[drawn])), round(VALIDATION_SHARE * len(drawn)))
    lots = StratifiedShuffleSplit(runs, test_size=held_back, random_state=seed).split(drawn, graph.y[drawn])
    return [
        Split.from_indices(
            graph.num_nodes, np.concatenate([drawn[train], nodes[alone]]), drawn[val], [], "column", index
        )
        for index, (train, val) in enumerate(lots)
    ]


def node_numbers(values: object, nodes: int) -> NDArray[np.int64]:
    """As scikit-learn gives them: `[k]` or `[k, 1]` whole numbers."""
    numbers = np.asarray(values)
    numbers = numbers[:, 0] if numbers.ndim == 2 and numbers.shape[1] == 1 else numbers
    if numbers.ndim != 1 or (
        numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= nodes)
    ):
        raise DataError(f"X holds what is no node number from 0 to {nodes - 1}.", "Give whole numbers of nodes.")
    return numbers.astype(np.int64)


def _names_hash(graph: Graph) -> str | None:
    """Whose graph it is, of models that know nodes by their number; None of nodes without names."""
    if graph.node_names is None:
        return None
    return hashlib.sha256("\0".join(graph.node_names).encode()).hexdigest()[:16]
