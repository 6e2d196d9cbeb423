"""NodeClassifier: the models of this package as a scikit-learn estimator."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from nlgnn.errors import DataError, OptionError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import learning_splits, own_splits
from nlgnn.models.build import configure, default_metric
from nlgnn.selection.auto import choose_model, race_metric
from nlgnn.selection.clock import DEFAULT_BUDGET
from nlgnn.training.decision import DECISIONS, check_decision, decide
from nlgnn.training.fit import fit
from nlgnn.training.model_folder import ModelFolder
from nlgnn.training.predict import mean_probabilities, temperatures, without_weights
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Run
from nlgnn.training.run_folder import why_no_new_nodes
from nlgnn.training.stored_run import checked_classifier, first_fault
from nlgnn.training.train import AUTO
from nlgnn.training.trained import Member, largest, mean_of_members, mean_weights

# Attributes of a fitted model that are saved as they are.
SAVED = (
    *("model_", "temperatures_", "num_features_", "num_nodes_", "names_hash_", "weighted_"),
    *("verdict_", "reason_", "leaderboard_", "weights_", "split_weights_"),
)

Nodes = Graph | Sequence[int] | NDArray[np.integer]


class NodeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Node classifier with the interface of scikit-learn.

    `NodeClassifier().fit(graph)` learns from the labels of a graph. `NodeClassifier(graph=graph).fit(nodes, y)` learns
    from the labels of the given nodes and sees no others, so that it works with `cross_val_score` and `GridSearchCV`
    over node numbers.

    Parameters
    ----------
    model : str, default="auto"
        Name of a model, as listed by `nlgnn models`. "auto" trains the models of a portfolio within the time budget and
        chooses one by validation, as `nlgnn train --model auto` does.
    graph : Graph, default=None
        The graph that node numbers refer to. Not needed if `fit` is given a graph.
    preset : {"paper", "released", "robust"}, default=None
        Bundle of settings. None chooses the one that suits the graph.
    n_runs : int, default=5
        Number of models to train, each on its own division of the labelled nodes into training and validation nodes.
        Predictions are the mean over these models. Where the graph has splits of its own (column, time, group), the
        automatic choice trains at most one model per split.
    class_weight : {"balanced"}, default=None
        Weights of classes in the loss. "balanced" gives every class the same total weight.
    metric : str, default=None
        Validation metric that epochs and models are chosen by, such as "accuracy" or "average-precision". None chooses
        one that suits the sizes of the classes.
    threshold : str or float, default=None
        Probability from which `predict` returns the rare one of two classes, or else the second: a number, "best-f1",
        "precision=0.9" or "recall=0.8". None stands for "best-f1" if a class is rare, else for the most probable class.
    cost : str, default=None
        Costs of errors, such as "fraud:10,legit:fraud:2"; others cost 1. Without a threshold they decide in `predict`.
    time_budget : str, default="10m"
        Time for the automatic choice, such as "90s", "5m" or "1h"; "none" for no limit.
    ensemble : bool, default=True
        Whether the automatic choice may average several models, with weights that validation chooses. It does so only
        with at least 200 validation nodes.
    random_state : int, default=0
        Seed of the first run; later runs count up from it.
    options : dict, default=None
        Further options of the model and its training, by the names of `nlgnn train`.
    progress : bool, default=False
        Whether to draw progress bars.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, as given to `fit`.
    model_ : str
        Name of the trained model; "ensemble" if several are averaged.
    weights_ : dict of str to float
        Mean weights of the averaged models; a single model has weight 1.
    verdict_ : str or None
        What helped, in sentences, if the choice was automatic.
    reason_ : str or None
        Reason of the automatic choice, with validation figures.
    leaderboard_ : list of dict
        The models that an automatic choice trained, the best first: validation metrics, times, and reasons of those
        that failed or were not started. It is empty if the model was named.
    recipe_ : Recipe
        Settings of the training; of an ensemble, those of the model with the largest weight.
    runs_ : list of Run
        The runs that succeeded, with their figures.
    temperatures_ : list of float
        Calibration temperature of each run.
    decision_ : Decision
        How `predict` chooses labels: the threshold or the costs, and the figures on validation nodes.

    Examples
    --------
    >>> from nlgnn import NodeClassifier, load_graph
    >>> graph = load_graph("mushroom-body")
    >>> classifier = NodeClassifier("gcn", n_runs=1, options={"epochs": 5}).fit(graph)
    >>> classifier.predict_proba().shape == (graph.num_nodes, graph.num_classes)
    True
    """

    def __init__(
        self,
        model: str = AUTO,
        *,
        graph: Graph | None = None,
        preset: str | None = None,
        n_runs: int = 5,
        class_weight: str | None = None,
        metric: str | None = None,
        threshold: str | float | None = None,
        cost: str | None = None,
        time_budget: str = DEFAULT_BUDGET,
        ensemble: bool = True,
        random_state: int = 0,
        options: Mapping[str, Any] | None = None,
        progress: bool = False,
    ) -> None:
        self.model = model
        self.graph = graph
        self.preset = preset
        self.n_runs = n_runs
        self.class_weight = class_weight
        self.metric = metric
        self.threshold = threshold
        self.cost = cost
        self.time_budget = time_budget
        self.ensemble = ensemble
        self.random_state = random_state
        self.options = options
        self.progress = progress

    def fit(self, X: Nodes, y: object = None) -> NodeClassifier:
        """Fit on a labelled graph, or on the labels of some nodes of `self.graph`.

        Args:
            X: A graph with labels, or numbers of nodes.
            y: Labels of the nodes. Not given with a graph.

        Returns:
            The fitted estimator.

        Raises:
            OptionError: If a parameter does not exist or cannot take its value.
            DataError: If nodes and labels do not fit each other or the graph, or if too few nodes have labels.
        """
        given = self._checked_options()
        if isinstance(X, Graph):
            if y is not None:
                raise OptionError("a graph has its own labels.", "Leave y out, or give node numbers and their labels.")
            graph, classes = X, np.array(X.class_names)
        else:
            graph, classes = self._relabelled(X, y)
        check_decision(graph, self.threshold, self.cost, given.get("class_weight"))
        auto = self.model.lower() == AUTO
        fixed = len(own_splits(graph)) if auto else 0
        splits = learning_splits(graph, min(self.n_runs, fixed or self.n_runs), given["seed"])
        divided = replace(graph, splits={"column": tuple(splits)})
        model, choice, weights, members = self.model, None, [[1.0]] * len(splits), dict[str, Member]()
        if auto:
            choice, members = choose_model(
                *(divided, "column", len(splits), self.preset),
                time_budget=self.time_budget,
                ensemble=self.ensemble,
                progress=self.progress,
                **given,
            )
            model = choice.entry.model
        else:
            if "metric" not in given and default_metric(divided) != "accuracy":
                given["metric"], _ = race_metric(divided, splits, None)
            factory, recipe = configure(model, divided, self.preset, **given)
            members[model] = Member(factory, recipe, fit(factory, divided, splits, recipe, progress=self.progress))
        first = next(iter(members.values()))
        found = first.runs
        if choice and choice.ensemble:
            weights, found = [list(row) for row in choice.ensemble.weights], choice.ensemble.runs
            first = list(members.values())[largest(weights)]
        models = [row.entry.model for name in members if choice and (row := choice.board.row(name))] or [model]
        runs = [run for run in found if run.failure is None]
        each = mean_of_members(list(members.values()), weights, runs, graph)
        heats, own = temperatures(each, runs, graph, splits), [splits[run.index] for run in runs]
        decision = decide(each, heats, graph, own, self.threshold, self.cost)
        # Set all attributes at the end, so that a failed fit leaves the estimator as it was.
        self.model_, self.factory_, self.recipe_, self.runs_ = model, first.factory, first.recipe, runs
        self.members_, self.member_models_, self.split_weights_ = list(members.values()), models, weights
        self.weights_ = mean_weights(list(members), weights)
        self.verdict_ = " ".join(choice.verdict) if choice else None
        self.reason_ = choice.headline if choice else None
        self.leaderboard_ = choice.board.to_dicts() if choice else []
        self.classes_, self.graph_ = classes, graph
        self.temperatures_, self.decision_ = heats, decision
        self.num_features_, self.num_nodes_ = graph.num_features, graph.num_nodes
        self.names_hash_ = _names_hash(graph)
        self.weighted_ = graph.edge_weight is not None
        return self

    def _checked_options(self) -> dict[str, Any]:
        """Return the options of the training, or raise for a bad parameter."""
        if not isinstance(self.model, str) or self.n_runs < 1:
            raise OptionError(f"model={self.model!r}, n_runs={self.n_runs}.", "Give a name, and at least one run.")
        given = {"seed": self.random_state, **(self.options or {})}
        for name in ("class_weight", "metric"):
            if getattr(self, name) is not None:
                given[name] = getattr(self, name)
        Recipe(**{name: given[name] for name in ("seed", "class_weight", "metric") if name in given})  # Checks values.
        return given

    def _relabelled(self, nodes: object, y: object) -> tuple[Graph, NDArray[Any]]:
        """Return the graph with the given labels and no others, and the classes."""
        if self.graph is None:
            raise OptionError("node numbers are given without a graph.", "Use NodeClassifier(graph=...).")
        numbers, labels = node_numbers(nodes, self.graph.num_nodes), np.asarray(y)
        if labels.shape != numbers.shape:
            raise DataError(f"{len(numbers)} nodes, but labels of shape {labels.shape}.", "Give one label per node.")
        classes, codes = np.unique(labels, return_inverse=True)
        known = np.full(self.graph.num_nodes, -1)
        known[numbers] = codes
        if (known[numbers] != codes).any():
            raise DataError("a node is given twice, with different labels.", "Give one label per node.")
        names = tuple(str(name) for name in classes)
        return replace(self.graph, y=known, class_names=names, splits={}), classes

    def predict_proba(self, X: Nodes | None = None) -> NDArray[np.floating]:
        """Return calibrated probabilities of classes.

        Args:
            X: A graph, or numbers of nodes of the fitted graph. None stands for all nodes of the fitted graph.

        Returns:
            The mean over runs, each calibrated on its validation nodes.

        Raises:
            DataError: If the graph has other columns of features, or other nodes and the model knows nodes by number.
        """
        check_is_fitted(self)
        graph = self._checked(X if isinstance(X, Graph) else self.graph_)
        each = mean_of_members(self.members_, self.split_weights_, self.runs_, graph)
        mean = mean_probabilities(each, self.temperatures_)
        is_whole = X is None or isinstance(X, Graph)
        chosen: NDArray[np.floating] = mean if is_whole else mean[node_numbers(X, graph.num_nodes)]
        return chosen

    def predict(self, X: Nodes | None = None) -> NDArray[Any]:
        """Return the class of each node by threshold, costs or probability.

        Args:
            X: A graph, or numbers of nodes of the fitted graph. None stands for all nodes of the fitted graph.

        Returns:
            The classes, as given to `fit`.
        """
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[self.decision_.labels(probabilities)])

    def score(self, X: Nodes, y: object = None, sample_weight: Any = None) -> float:
        """Return the accuracy, from 0 to 1, on the labels of a graph or on the given labels.

        On the fitted graph the score is optimistic, since most of its labels were used in training.

        Args:
            X: A graph with labels, or numbers of nodes of the fitted graph.
            y: Labels of the nodes. Not given with a graph.
            sample_weight: Weights of the nodes. Not given with a graph.

        Returns:
            The share of nodes whose class is predicted.

        Raises:
            OptionError: If labels or weights are given with a graph, or if the graph has no labels.
        """
        from sklearn.metrics import accuracy_score

        if isinstance(X, Graph):
            if y is not None or sample_weight is not None or not X.labelled.any():
                raise OptionError("a graph is scored by its own labels.", "Give a labelled graph, or numbers and y.")
            known = X.labelled
            names = np.array(X.class_names)[X.y[known]]
            return float(accuracy_score(names, self.predict(X).astype(str)[known]))
        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def _checked(self, graph: Graph) -> Graph:
        """Return the graph if the model applies to it, without edge weights if it was fitted without."""
        if graph.num_features != self.num_features_:
            raise DataError(
                f"graph {graph.name!r} has {graph.num_features} features; the model has {self.num_features_}.",
                "Encode new nodes as the fitted ones were.",
            )
        others = graph.num_nodes != self.num_nodes_ or self.names_hash_ not in (None, _names_hash(graph))
        for member in self.members_ if others else ():
            refusal = why_no_new_nodes(self.model_, member.factory, member.runs)
            if refusal:
                raise DataError(*refusal)
        unexpected = graph.edge_weight is not None and not self.weighted_
        return without_weights(graph, self.model_) if unexpected else graph

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a new folder of JSON and safetensors files, without the graph.

        Args:
            path: The folder, which must not exist.

        Raises:
            RunFolderError: If the folder exists or cannot be written.
        """
        check_is_fitted(self)
        parameters = {name: value for name, value in self.get_params().items() if name != "graph"}
        saved = {
            "parameters": parameters,
            "members": [
                {
                    "model": model,
                    "model_arguments": member.factory.keywords,
                    "recipe": member.recipe.model_dump(),
                    "runs": [run.summary() for run in member.runs if run.failure is None],
                }
                for model, member in zip(self.member_models_, self.members_, strict=True)
            ],
            "classes": self.classes_.tolist(),
            "runs": [run.summary() for run in self.runs_],
            "decision": asdict(self.decision_),
            **{name: getattr(self, name) for name in SAVED},
        }
        states = [run.state for member in self.members_ for run in member.runs if run.failure is None]
        ModelFolder.write(Path(path), saved, states)

    @classmethod
    def load(cls, path: str | Path, graph: Graph) -> NodeClassifier:
        """Read a fitted model, for the graph that it was fitted on or one with the same features.

        Args:
            path: A folder that `save` wrote.
            graph: The graph for which nodes are predicted without another one.

        Returns:
            The fitted estimator.

        Raises:
            RunFolderError: If the folder is damaged or was not written by `save`.
            DataError: If the graph does not fit the model.
        """
        from nlgnn.models.registry import get_system
        from nlgnn.models.registry import load as load_system

        content, states = ModelFolder.read(Path(path))
        try:
            saved = checked_classifier(content)
            made = cls(**saved["parameters"], graph=graph)
            for name in SAVED:
                setattr(made, name, saved[name])
            made.classes_, made.runs_ = np.array(saved["classes"]), [Run(**run) for run in saved["runs"]]
            made.members_, made.member_models_ = [], [str(one["model"]) for one in saved["members"]]
            left = iter(states)
            for one in saved["members"]:
                factory = partial(load_system(get_system(one["model"])), **one["model_arguments"])
                runs = [Run(**{**run, "state": next(left)}) for run in one["runs"]]
                made.members_.append(Member(factory, Recipe(**one["recipe"]), runs))
            first = made.members_[largest(made.split_weights_)]
            made.factory_, made.recipe_ = first.factory, first.recipe
            made.decision_ = DECISIONS.validate_python(saved["decision"])
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration, IndexError) as error:
            what = f"{path}/model.json cannot be used: {first_fault(error)}."
            raise RunFolderError(what, "Restore the file, or fit again.") from None
        made.graph_ = made._checked(graph)
        return made


def node_numbers(values: object, nodes: int) -> NDArray[np.int64]:
    """Return node numbers, given as `[k]` or `[k, 1]` whole numbers, as one array."""
    numbers = np.asarray(values)
    numbers = numbers[:, 0] if numbers.ndim == 2 and numbers.shape[1] == 1 else numbers
    if numbers.ndim != 1 or (
        numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= nodes)
    ):
        raise DataError(f"X holds no node numbers from 0 to {nodes - 1}.", "Give whole numbers of nodes.")
    return numbers.astype(np.int64)


def _names_hash(graph: Graph) -> str | None:
    """Return a hash of the names of nodes, by which a graph is recognised, or None without names."""
    if graph.node_names is None:
        return None
    return hashlib.sha256("\0".join(graph.node_names).encode()).hexdigest()[:16]
