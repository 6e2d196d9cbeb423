"""Graphs and trainings that are out of the ordinary: each gives a page that opens, and says what is so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import in_strips, open_tables, opened, point_at, shown_range, wait_until
from playwright.sync_api import Browser, Page
from report_samples import easy_graph, trained_on

from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.report.figures import PALETTE, UNKNOWN
from nlgnn.report.figures.strips import BINS, GAP
from nlgnn.report.run_page import write_run_page
from nlgnn.training.replica import Run
from nlgnn.training.train import Trained

pytestmark = pytest.mark.slow

EVIL = "</script><img src=x onerror=alert(1)>"
LIMIT = 3_000_000  # bytes
ReportOf = Callable[..., Any]
Change = Callable[[Trained], Trained]


@pytest.fixture
def report_of(browser: Browser, tmp_path: Path) -> ReportOf:
    """Trains, writes and opens; on a telephone too, where nothing may stick out."""

    @contextmanager
    def open_report(graph: Graph, change: Change = lambda one: one, **options: Any) -> Iterator[Page]:
        trained = change(trained_on(graph, tmp_path / "run", **{"epochs": 3} | options))
        path = tmp_path / "report.html"
        write_run_page(path, trained, graph, {})
        assert path.stat().st_size < LIMIT
        with opened(browser, path) as page:
            page.set_viewport_size({"width": 390, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            page.set_viewport_size({"width": 1200, "height": 900})
            in_all = page.evaluate("[document.documentElement.scrollWidth, document.images.length]")
            assert in_all == [1200, 0]
            yield page

    return open_report


def headings(page: Page) -> list[str]:
    return page.locator("h2").all_inner_texts()


def find(page: Page, name: str) -> str:
    page.fill("#sought", name)
    page.keyboard.press("Enter")
    return page.locator("#node").inner_text()


def test_names_that_look_like_html(report_of: ReportOf) -> None:
    classes = [EVIL, "\"quotes' & `ticks`", "🦊 ü \u2028 ]]>"]
    graph = easy_graph(name=f"{EVIL}?", class_names=classes, node_names=[f"{EVIL} {node}" for node in range(60)])
    with report_of(graph) as page:
        assert page.title() == f"nlmlp on {EVIL}?"
        assert page.locator("h1").inner_text() == f"nlmlp on {EVIL}?"
        assert page.locator("#node option").all_text_contents() == classes
        assert find(page, f"{EVIL} 17").startswith(f"Node {EVIL} 17")
        label = graph.y[17]
        assert f"Label {classes[label]}".split("\u2028")[0] in page.locator("#node").inner_text()
        matrix = page.locator("figure[aria-label='Confusion matrix']").inner_text()
        assert "</script><img src=…" in matrix  # on its axis, shortened
        open_tables(page)
        cells = page.locator("figure[aria-label='Sorted sequence'] td").all_text_contents()
        assert f"{EVIL} 0" in cells
        point_at(page, 20)
        page.locator("#vg-tooltip-element.visible").wait_for()
        assert EVIL in page.locator("#vg-tooltip-element").inner_text()


def test_a_class_name_of_three_hundred_characters(report_of: ReportOf) -> None:
    name = "x" * 300
    with report_of(easy_graph(class_names=[name, "word " * 60, "c"])) as page:
        assert page.locator("#node option").first.text_content() == name
        open_tables(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 1200
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_one_class(report_of: ReportOf) -> None:
    """Training takes it, and is as right as a constant answer."""
    with report_of(easy_graph(num_classes=1)) as page:
        assert page.locator(".headline .figure").inner_text() == "Not clearly better than a constant answer"
        assert page.locator("#node option").count() == 1


def test_two_hundred_classes(report_of: ReportOf) -> None:
    graph = easy_graph(1000, 200)
    with report_of(graph, runs=1) as page:
        assert page.locator("#node option").count() == 200
        assert "Confusion matrix" not in headings(page)  # a matrix of 40,000 cells
        assert "The page contains no explanation" in find_unexplained(page)


def find_unexplained(page: Page) -> str:
    """What is said of a node that the page has no reasons of."""
    explained = set(page.evaluate("Array.from(decode(payload.nodes.parts.explained))"))
    return find(page, str(next(node for node in range(1000) if node not in explained)))


def test_no_edges(report_of: ReportOf) -> None:
    with report_of(easy_graph(edges=0)) as page:
        assert "The node has no neighbours." in page.locator("#node").inner_text()


def test_isolated_nodes(report_of: ReportOf) -> None:
    graph = easy_graph(edge_index=[[0, 1], [1, 2]])
    with report_of(graph) as page:
        assert "The node has no neighbours." in find(page, "59")
        text = find(page, "1")
        assert "The node has no neighbours." not in text
        assert page.locator(".pair table").nth(1).locator("tbody tr").count() == 2


@pytest.mark.parametrize("nodes", [True, False], ids=["of unknown label", "no test nodes"])
def test_no_test_labels(report_of: ReportOf, nodes: bool) -> None:
    graph = easy_graph()
    (split,) = make_splits(graph, "random-60", 1)
    y, test = np.where(split.test, -1, graph.y), split.test & nodes
    graph = replace(graph, y=y, splits={"column": (Split(split.train, split.val, test),)})
    with report_of(graph, protocol="column", runs=1) as page:
        assert page.locator(".headline .what").inner_text().startswith("validation accuracy of nlmlp")
        assert "No test node has a label" in page.locator(".headline").inner_text()
        assert "Confusion matrix" not in headings(page)
        assert "Sorted sequence" in headings(page)


def test_one_run(report_of: ReportOf) -> None:
    with report_of(easy_graph(), runs=1) as page:
        what = page.locator(".headline .what").inner_text()
        assert what.startswith("test accuracy of nlmlp, mean of 1 run, protocol random-60")


def test_failed_runs_among_good_ones(report_of: ReportOf) -> None:
    def failing(trained: Trained) -> Trained:
        runs = [
            Run(run.index, run.seed, run.protocol, run.split, failure=f"run {run.index} has no loss")
            if run.index in (0, 2)
            else run
            for run in trained.runs
        ]
        return replace(trained, runs=runs)

    with report_of(easy_graph(), failing, runs=4) as page:
        assert ", mean of 2 runs," in page.locator(".headline .what").inner_text()
        text = page.locator("main").inner_text()
        assert "Left out of the figures: run 0 has no loss. Left out of the figures: run 2 has no loss." in text
        assert "at the epoch that run 1 chose" in text


def test_a_model_that_sorts_nothing(report_of: ReportOf) -> None:
    with report_of(easy_graph(), model="gcn") as page:
        assert "Sorted sequence" not in headings(page)
        assert page.locator("#nodes").count() == 0
        assert page.locator("figure canvas").count() == 1  # the embedding
        page.click("#theme")


def test_half_of_the_labels_unknown(report_of: ReportOf) -> None:
    graph = easy_graph()
    graph = replace(graph, y=np.where(np.arange(60) % 2, graph.y, -1))
    with report_of(graph) as page:
        text = find(page, "0")
        assert "Label unknown, in no part." in text
        assert "wrong" not in text.split("\n\n")[1]
        positions = in_strips(page, "datasets.nodes.map((node) => node.position)")
        place = next(position for position in positions[2::2])
        assert in_strips(page, "coloursAt([[given + 0.5, 1]])", place) == [UNKNOWN]


def test_names_that_occur_twice(report_of: ReportOf) -> None:
    """A click looks into the node that is there, not into its namesake."""
    with report_of(easy_graph(node_names=["same"] * 60)) as page:
        for position in (5, 50):
            page.mouse.click(*point_at(page, position))
            assert f"Position {position} of" in page.locator("#node").inner_text()


def test_another_metric(report_of: ReportOf) -> None:
    with report_of(easy_graph(num_classes=2), metric="roc-auc") as page:
        assert page.locator(".headline .what").inner_text().startswith("test roc-auc of nlmlp")


def test_more_nodes_than_pixels(report_of: ReportOf) -> None:
    """Shares first; zoomed in, nodes."""
    graph = easy_graph(5000, 3)
    with report_of(graph, runs=1) as page:
        point_at(page, 2000)
        page.locator("#vg-tooltip-element.visible").wait_for()
        assert "share of this part" in page.locator("#vg-tooltip-element").inner_text()
        page.mouse.click(*point_at(page, 2000))
        text = page.locator("#node").inner_text()
        position = int(text.split("Position ")[1].split(" ")[0])
        assert abs(position - 2000) <= 3  # a pixel is five nodes wide
        for _ in range(4):
            page.click("[data-zoom='0.5']")
        low, high = shown_range(page)
        assert high - low == 5000 / 16 < 2 * BINS
        near = int(position + 20)
        label = in_strips(page, "datasets.nodes.find((node) => node.position === given).label", near)
        assert in_strips(page, "coloursAt([[given + 0.5, 1]])", near) == [PALETTE[int(label.split()[1])]]
        point_at(page, near)
        wait_until(page, "document.getElementById('vg-tooltip-element').textContent.includes('probability')")


def test_too_many_nodes_to_list(report_of: ReportOf) -> None:
    with report_of(easy_graph(25_000, 5), runs=1) as page:
        assert "of 25,000 nodes." in page.locator("#nodes").inner_text()
        listed = in_strips(page, "datasets.nodes.map((node) => node.node)")
        assert 1000 < len(listed) < 25_000
        unlisted = next(node for node in range(25_000) if node not in set(listed))
        assert "The page contains a sample of the nodes. nlgnn explain finds all." in find(page, str(unlisted))
        assert find(page, str(listed[0])).startswith(f"Node {listed[0]}\n")
        page.locator("figure[aria-label='Sorted sequence'] summary").click()
        table = page.locator("figure[aria-label='Sorted sequence'] table")
        table.wait_for()
        assert table.locator("th").all_inner_texts() == ["strip", "bin", "class", "low", "high"]
        bins = in_strips(page, "datasets.bins.filter(({ strip, low, high }) => strip === 1 && high - low > 0.3)")
        assert len(bins) > 300
        middles = [[(one["bin"] + 0.5) * 25_000 / BINS, middle(one) + 0.5] for one in bins]
        colours = in_strips(page, "coloursAt(given)", middles)
        wanted = [PALETTE[int(one["class"].split()[1])] for one in bins]
        assert set(wanted) == set(PALETTE[:5])
        others = sum(colour != right for colour, right in zip(colours, wanted, strict=True))
        assert others <= 2  # where the line goes that marks a node


def middle(share: dict[str, Any]) -> float:
    """Of the rectangle of a share, from top to bottom of its strip."""
    return GAP + (share["low"] + share["high"]) / 2 * (1 - 2 * GAP)


def test_ten_thousand_nodes_in_ten_runs_stay_small(report_of: ReportOf) -> None:
    names = [f"https://www.example.org/people/{node}/index.html" for node in range(10_000)]
    with report_of(easy_graph(10_000, 7, node_names=names), runs=10) as page:
        assert find(page, names[4711]).startswith(f"Node {names[4711]}\n")


MARKS = "[...document.querySelectorAll('figure svg')].map((one) => one.querySelectorAll('path, rect, text').length)"
LEGENDS = "[...document.querySelectorAll('figure svg')].map((one) => one.textContent)"


def test_classes_called_like_parts_of_javascript(report_of: ReportOf, tmp_path: Path) -> None:
    """Every figure has the marks that it has for ordinary names of the same lengths."""
    names, ordinary = ["__proto__", "constructor", "toString"], ["aaaaaaaaa", "bbbbbbbbbbb", "cccccccc"]
    with report_of(easy_graph(class_names=ordinary)) as page:
        wanted, texts = page.evaluate(MARKS), page.evaluate(LEGENDS)
    (tmp_path / "run").rename(tmp_path / "first")
    with report_of(easy_graph(class_names=names)) as page:
        assert page.evaluate(MARKS) == wanted
        found = page.evaluate(LEGENDS)
        for hostile, plain in zip(names, ordinary, strict=True):
            texts = [text.replace(plain, hostile) for text in texts]
        assert [sorted(text) for text in found] == [sorted(text) for text in texts]
        assert find(page, "17").startswith("Node 17")
        page.locator("#node").get_by_text(names[easy_graph().y[17]]).first.wait_for()
