"""Settings of all tests: one thread, the same examples every time, and types checked at run time if asked for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import settings

CHECK_TYPES = bool(os.environ.get("NLGNN_CHECK_TYPES"))
if (
    CHECK_TYPES
):  # before anything imports nlgnn; takes as long as the tests themselves, so that test_types.py does it once
    # "tower": a whole number is a float too, as for every static type checker.
    beartype = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
    jaxtyping.install_import_hook(["nlgnn", "benchmarks"], beartype)

import torch  # noqa: E402

from nlgnn.graph.graph import Graph  # noqa: E402
from nlgnn.graph.splits import Split  # noqa: E402

if CHECK_TYPES:
    for converting in (Graph, Split):  # they accept anything that can be converted to the types of their fields
        converting.__init__ = converting.__init__.__wrapped__  # type: ignore[attr-defined, method-assign]

torch.set_num_threads(1)  # on small graphs faster and steadier

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # shells start commands in the background like this
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("nlgnn", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("nlgnn")


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of the real datasets."""
    if not os.environ.get("NLGNN_DATA"):
        pytest.skip("NLGNN_DATA is not set")
    return Path(os.environ["NLGNN_DATA"])


@pytest.fixture
def as_users_run_it() -> Iterator[None]:
    """Without run-time types: for tests of what users are told, who do not have them."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def short_portfolio(monkeypatch: pytest.MonkeyPatch, as_users_run_it: None) -> None:
    """Four quick entries: two without edges, a graph model, and one for directed edges."""
    from nlgnn.selection import portfolio

    names = ("logistic, own columns", "mlp", "gcn", "dirgcn")
    kept = [entry for entry in portfolio.DATA["entry"] if entry["name"] in names]
    monkeypatch.setitem(portfolio.DATA, "entry", kept)  # type: ignore[arg-type]
