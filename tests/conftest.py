"""For all tests: types and shapes checked at run time, one thread, the same examples every time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import settings

# Before anything imports nlgnn. "tower": a whole number is a float too, as for every static type checker.
jaxtyping.install_import_hook("nlgnn", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

import torch  # noqa: E402

from nlgnn.graph.graph import Graph  # noqa: E402
from nlgnn.graph.splits import Split  # noqa: E402

for converting in (Graph, Split):  # their fields say what they hold; they are given anything that can be made into it
    converting.__init__ = converting.__init__.__wrapped__

torch.set_num_threads(1)  # on small graphs faster and steadier

settings.register_profile("nlgnn", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("nlgnn")


def pytest_configure(config: pytest.Config) -> None:
    # PyTorch Geometric, which the tests compare with, says so on import.
    config.addinivalue_line("filterwarnings", "ignore:`torch.jit.script` is deprecated:DeprecationWarning")


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
