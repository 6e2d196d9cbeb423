"""The nodes of a page in a real browser: pointed at, clicked, sought, and brought into view."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chromium import in_strips, opened, point_at, shown_range, wait_until
from playwright.sync_api import Browser, Page
from report_samples import Report

from nlgnn.graph.graph import Graph
from nlgnn.report.figures import PALETTE
from nlgnn.report.run_page import write_run_page

pytestmark = pytest.mark.slow


def heading(page: Page) -> str:
    return page.locator("#node h3").first.inner_text()


def node_at(page: Page, position: int) -> int:
    node: int = in_strips(page, "datasets.nodes.find((node) => node.position === given).node", position)
    return node


def test_every_figure_is_drawn(page: Page) -> None:
    figures = page.locator("[data-figure]")
    assert figures.count() == 12
    for number in range(figures.count()):
        box = figures.nth(number).locator("canvas, svg").first.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) > 60
    assert page.locator("#node h3").count() == 3  # the first node is shown from the start


def test_pointing_at_a_node_tells_what_it_is(page: Page, report: Report) -> None:
    for position, strip in ((0, 1), (100, 1), (208, 1)):
        point_at(page, position, strip)
        tooltip = page.locator("#vg-tooltip-element.visible")
        tooltip.wait_for()
        cells = tooltip.locator("td").all_inner_texts()
        rows = dict(zip(cells[::2], cells[1::2], strict=True))
        why = report.explain(node_at(page, position))
        assert {name: rows[name] for name in ("node", "label", "prediction", "position")} == {
            "node": why.name,
            "label": why.label,
            "prediction": why.prediction,
            "position": str(position),
        }
        assert why.position == position
        assert float(rows["probability"]) == pytest.approx(why.probability, abs=6e-4)
        assert float(rows["score"].replace("−", "-")) == pytest.approx(why.score, rel=1e-3)
        assert rows["part"] in ("training", "validation", "test")


def test_clicking_a_node_shows_why(page: Page, report: Report) -> None:
    for position in (0, 60, 208):  # at both ends the window is cut
        page.mouse.click(*point_at(page, position))
        node = node_at(page, position)
        why = report.explain(node)
        assert heading(page) == f"Node {node}"
        text = page.locator("#node").inner_text()
        assert f"Position {position} of 0 to 208, score " in text
        assert f"Predicted {why.prediction} with probability {why.probability:.3f}" in text
        rows = page.locator(".pair table").first.locator("tbody tr")
        window = [rows.nth(number).locator("td").nth(1).inner_text() for number in range(rows.count() - 1)]
        assert [name for name in window if name] == [one.name for one in why.window]
        beside = page.locator(".pair table").nth(1).locator("tbody tr")
        assert beside.count() == min(24, len(why.neighbours))
        silenced = int(np.argmax(why.silenced))  # type: ignore[arg-type]
        assert f"non-local part, the prediction is {why.class_names[silenced]} with" in text


def test_the_first_strip_has_an_order_of_its_own(page: Page) -> None:
    page.mouse.click(*point_at(page, 70, strip=0))
    node = in_strips(page, "datasets.nodes.find((node) => node['position before'] === 70).node")
    assert heading(page) == f"Node {node}" != f"Node {node_at(page, 70)}"
    x, y = in_strips(page, "placeOf(0, 6.5)")  # the axis
    page.mouse.click(x, y)
    assert heading(page) == f"Node {node}"


def test_contributions_add_up_for_every_class(page: Page, report: Report) -> None:
    page.fill("#sought", "100")
    page.keyboard.press("Enter")
    why = report.explain(100)
    seen = []
    for label, name in enumerate(why.class_names):
        page.select_option("#node select", label=name)
        cells = [
            float(text.replace("−", "-"))
            for text in page.locator(".pair table").first.locator("tbody tr > :nth-child(4)").all_inner_texts()
        ]
        *parts, logit = cells
        assert logit == pytest.approx(float(why.logits[label]), abs=6e-4)
        assert sum(parts) == pytest.approx(logit, abs=5e-4 * (len(parts) + 1))  # each is rounded
        assert parts[1:-1] == pytest.approx([float(one.contributions[label]) for one in why.window], abs=6e-4)
        seen.append(tuple(cells))
    assert len(set(seen)) == 4


def test_nodes_are_found_by_name(page: Page) -> None:
    for text, found in ((" 17 ", "Node 17"), ("20", "Node 20"), ("20x", None), ("", None), ("<b>", None)):
        page.fill("#sought", text)
        page.click("#find button")
        if found:
            assert heading(page) == found
        else:
            assert page.locator("#node").inner_text() == f"No node “{text}” is on this page."
    page.click("[data-step='1']")  # the last node found is not forgotten
    assert heading(page) != "Node 20"


def test_nodes_are_found_by_how_they_begin(browser: Browser, tmp_path: Path, report: Report) -> None:
    names = [f"Neuron-{number:03}" for number in range(209)]
    graph = Graph(report.graph.x, report.graph.edge_index, report.graph.y, node_names=names)
    write_run_page(tmp_path / "report.html", report.trained, graph, {})
    with opened(browser, tmp_path / "report.html") as page:
        for text, found in (("neuron-12", "Node Neuron-120"), ("Neuron-007", "Node Neuron-007")):
            page.fill("#sought", text)
            page.keyboard.press("Enter")
            assert heading(page) == found


def test_stepping_along_the_order(page: Page) -> None:
    page.mouse.click(*point_at(page, 50))
    for step, position in (("1", 51), ("1", 52), ("-1", 51)):
        page.click(f"[data-step='{step}']")
        assert f"Position {position} of" in page.locator("#node").inner_text()
    page.mouse.click(*point_at(page, 208))
    page.click("[data-step='1']")
    assert "Position 208 of" in page.locator("#node").inner_text()
    page.locator("#node .pair button").first.click()  # a node of the window
    assert "Position 204 of" in page.locator("#node").inner_text()


def test_buttons_move_what_is_shown(page: Page) -> None:
    """Zooming keeps the node that is looked at in its place."""

    def after(button: str) -> tuple[float, float]:
        page.click(button)
        return shown_range(page)

    page.mouse.click(*point_at(page, 104))  # in the middle
    assert shown_range(page) == (0, 209)
    assert after("[data-zoom='0.5']") == (52.25, 156.75)
    assert after("[data-pan='0.5']") == (104.5, 209)
    assert after("[data-zoom='0.5']") == (104.5, 156.75)  # around the node, which is at the left end
    assert after("[data-pan='-0.5']") == (78.375, 130.625)
    for _ in range(6):
        low, high = after("[data-zoom='0.5']")
    assert high - low == 10  # no further
    assert after("[data-zoom='whole']") == (0, 209)
    assert after("[data-zoom='2']") == (0, 209)


def test_wheel_drag_and_double_click_move_what_is_shown(page: Page) -> None:
    x, y = point_at(page, 100)
    before = heading(page)
    scrolled = page.evaluate("scrollY")
    page.mouse.wheel(0, -100)
    low, high = shown_range(page)
    assert high - low == pytest.approx(0.8 * 209)
    assert (100.5 - low) / (high - low) == pytest.approx(100.5 / 209, abs=1e-3)  # what is pointed at stays there
    assert page.evaluate("scrollY") == scrolled
    page.mouse.down()
    page.mouse.move(x + 30, y, steps=10)
    page.mouse.move(x - 90, y, steps=10)
    shown_range(page)  # drawn: the pointer is where it was, on the node that it took hold of
    page.mouse.move(x - 90, y + 1)
    page.mouse.up()
    dragged, _ = shown_range(page)
    width = in_strips(page, "view.width()")
    assert dragged - low == pytest.approx(90 / width * (high - low), rel=0.02)
    assert heading(page) == before  # a drag is not a click
    page.mouse.dblclick(x, y)
    assert shown_range(page) == (0, 209)
    page.mouse.wheel(0, 100)  # nothing is left to zoom out of: the page scrolls
    wait_until(page, f"scrollY > {scrolled}")


def test_what_is_found_is_brought_into_view(page: Page) -> None:
    page.click("[data-zoom='0.5']")
    page.click("[data-zoom='0.5']")
    node = node_at(page, 3)
    page.fill("#sought", str(node))
    page.keyboard.press("Enter")
    low, high = shown_range(page)
    assert low <= 3.5 <= high
    assert high - low == pytest.approx(209 / 4)


def test_strips_have_the_colours_of_the_classes(page: Page, report: Report) -> None:
    nodes = in_strips(page, "datasets.nodes.map((node) => [node['position before'], node.position])")
    marked = in_strips(page, "view.signal('found') - 0.5")
    for strip in (0, 1):
        places = [places[strip] for places in nodes]
        colours = in_strips(page, "coloursAt(given)", [[place + 0.5, strip] for place in places])
        for place, colour, label in zip(places, colours, report.graph.y.tolist(), strict=True):
            if place != marked:  # which a line is drawn through
                assert colour == PALETTE[label]
