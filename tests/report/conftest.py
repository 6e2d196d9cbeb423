"""What several tests of pages look at: a training, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from report_samples import COMPARED, TRAININGS, Report, easy_graph, trained_on

from nlgnn.datasets import load_graph
from nlgnn.report.run_page import write_run_page
from nlgnn.training.train import Trained

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="package")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Of `easy_graph()`, alone."""
    return trained_on(easy_graph(), tmp_path_factory.mktemp("alone") / "run")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    from chromium import find_chromium, running_chromium

    program = find_chromium()
    if program is None:
        pytest.skip("there is no Chromium on this machine; on Debian: apt install chromium")
    with running_chromium(program) as browser:
        yield browser


@pytest.fixture(scope="package")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Of some epochs of NLGCN beside two others, on the graph that comes with the package, which has 209 nodes."""
    folder, graph = tmp_path_factory.mktemp("report"), load_graph("mushroom-body-left")
    trained = trained_on(graph, folder / "run", "nlgcn", epochs=40)
    others = {model: trained_on(graph, folder / model, model) for model in ("gcn", "mlp")}
    write_run_page(folder / "report.html", trained, graph, others)
    return Report(folder / "report.html", trained, graph)


@pytest.fixture
def page(browser: Browser, report: Report) -> Iterator[Page]:
    """That report, opened."""
    from chromium import opened

    with opened(browser, report.path) as page:
        yield page


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    for name, options in TRAININGS.items():
        trained_on(load_graph(COMPARED), path / name, epochs=2, **options)
    (path / "run-notes").mkdir()
    return path
