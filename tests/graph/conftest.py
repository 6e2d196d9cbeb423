import os
from collections.abc import Callable
from functools import cache

import pytest

from nlgnn.graph import Graph


@pytest.fixture(scope="session")
def real_graph() -> Callable[[str], Graph]:
    """Public graphs by name, each read once; the test is skipped where their files are not at hand."""
    if not os.environ.get("NLGNN_DATA"):
        pytest.skip("NLGNN_DATA is unset: the public graphs are not at hand")
    from nlgnn.datasets import load_graph

    return cache(load_graph)
