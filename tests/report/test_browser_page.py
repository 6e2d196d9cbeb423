"""The page as a whole in a real browser: it keeps to itself, can be read, reached, saved, copied and printed."""

from __future__ import annotations

import csv
import re
import struct
from base64 import b64encode
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from chromium import contrasts, in_strips, open_tables, opened, shown_range, wait_until
from playwright.sync_api import Browser, Page
from report_samples import Report

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("leak", "noticed"),
    [
        ("fetch('elsewhere')", "elsewhere"),
        ("new Image().src = 'elsewhere'", "elsewhere"),
        ("console.log('said')", "console: said"),
        ("alert('asked')", "dialog: asked"),
        ("setTimeout(() => unknown_name, 0)", "error: unknown_name"),
    ],
)
def test_what_a_page_must_not_do_is_noticed(
    browser: Browser, report: Report, leak: str, noticed: str, tmp_path: Path
) -> None:
    """Else no other test here would say anything."""
    whole, last = report.path.read_text(), "</script>\n</body>"
    assert last in whole
    page = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", whole)  # it would stop a changed script
    (tmp_path / "leak.html").write_text(page.replace(last, leak + last))
    with pytest.raises(AssertionError, match=noticed), opened(browser, tmp_path / "leak.html"):
        pass


TEXTS = [
    "h1",
    "p",
    "th",
    "td",
    ".caption",
    "button",
    "button.link",
    "summary",
    "label",
    "code",
    ".role-axis-label text",
]


def theme(page: Page) -> str:
    """By what is seen."""
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = page.evaluate("getComputedStyle(document.body).color")
    for _ in range(100):  # a canvas has to be told, which takes a moment
        if in_strips(page, "view.signal('ink')") == ink:
            break
        page.wait_for_timeout(50)
    assert in_strips(page, "view.signal('ink')") == ink
    for text in TEXTS:
        assert min(contrasts(page, text)) >= 4.5, text
    return {"rgb(255, 255, 255)": "light", "rgb(22, 24, 28)": "dark"}[paper]


@pytest.mark.parametrize(("system", "other"), [("light", "dark"), ("dark", "light")])
def test_themes_can_be_read(browser: Browser, report: Report, system: Any, other: Any) -> None:
    with opened(browser, report.path, color_scheme=system) as page:
        assert theme(page) == system
        page.emulate_media(color_scheme=other)
        assert theme(page) == other
        page.click("#theme")
        assert theme(page) == system
        page.click("#theme")
        assert theme(page) == other


def test_all_can_be_reached_and_used_with_the_keyboard(page: Page) -> None:
    focusable = "button, input, select, summary, .table[tabindex]"
    page.evaluate(f"document.querySelectorAll('{focusable}').forEach((one, number) => one.dataset.number = number)")
    visible = {one.get_attribute("data-number") for one in page.locator(focusable).all() if one.is_visible()}
    reached = set()
    for _ in range(len(visible) + 5):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.number"))
    assert visible <= reached

    page.focus("[data-zoom='0.5']")
    page.keyboard.press("Enter")
    low, high = shown_range(page)
    assert high - low == 209 / 2
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert theme(page) == "dark"
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    page.locator("details[open] td").first.wait_for()
    page.focus("#sought")
    page.keyboard.type("17")
    page.keyboard.press("Enter")
    assert page.locator("#node h3").first.inner_text() == "Node 17"


def saved(page: Page, figure: str, kind: str, folder: Path) -> Path:
    holder = page.locator(f"figure[aria-label='{figure}']")
    with page.expect_download() as download:
        holder.locator(f"[data-save={kind}]").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


@pytest.mark.parametrize("figure", ["Sorted sequence", "Compared with baselines"])
def test_figures_can_be_saved(page: Page, figure: str, tmp_path: Path) -> None:
    page.click("#theme")  # in a dark page too, on white paper
    name = figure.lower().replace(" ", "-")
    drawn = saved(page, figure, "svg", tmp_path)
    assert drawn.name == f"{name}.svg"
    root = ElementTree.fromstring(drawn.read_text())
    assert root.tag.endswith("svg")
    fills = {text.get("fill") for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert fills == {"#1b1d21"}
    content = saved(page, figure, "png", tmp_path).read_bytes()
    width, height = struct.unpack(">II", content[16:24])
    assert content[:4] == b"\x89PNG"
    assert (width > 1500, height > 300) == (True, True)
    rows = list(csv.DictReader(saved(page, figure, "csv", tmp_path).read_text().splitlines()))
    if figure == "Sorted sequence":
        assert len(rows) == 209
        assert set(rows[0]) >= {"node", "label", "score"}
    else:
        assert {"nlgcn", "logistic, own columns"} <= {row["model"] for row in rows}
    assert theme(page) == "dark"  # what was done for the picture is undone


def test_axes_have_few_ticks_however_wide_they_are(page: Page) -> None:
    axes = page.locator("figure[aria-label='Compared with baselines'] .role-axis-label").all()
    labels = [axis.locator("text").all_text_contents() for axis in axes]
    (numbers,) = [texts for texts in labels if all(text.replace(".", "").isdecimal() for text in texts)]
    assert 3 <= len(numbers) <= 8


def test_tables_open(page: Page) -> None:
    holder = page.locator("figure[aria-label='Sorted sequence']")
    assert holder.locator("td").count() == 0
    holder.locator("summary").click()
    rows = holder.locator("tbody tr")
    rows.first.wait_for()
    assert rows.count() == 209
    assert holder.locator("th").all_inner_texts()[:3] == ["node", "label", "prediction"]


def test_commands_can_be_copied(page: Page) -> None:
    command = page.locator(".command").last
    words = command.locator("code").inner_text()
    assert words.startswith("nlgnn train mushroom-body-left --model nlgcn")
    command.locator("button").click()
    wait_until(page, "[...document.querySelectorAll('[data-copy]')].at(-1).textContent === 'Copied'")
    assert page.evaluate("getSelection().toString()") == words
    page.focus("#sought")
    page.keyboard.press("Control+V")
    assert page.input_value("#sought") == words


def test_a_phone_scrolls_down_only(browser: Browser, report: Report) -> None:
    with opened(browser, report.path, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True) as page:
        open_tables(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("innerWidth") == 390  # not zoomed out to make room
        page.locator("#nodes canvas").scroll_into_view_if_needed()
        page.touchscreen.tap(*in_strips(page, "placeOf(120.5, 1)"))
        wait_until(page, "document.getElementById('node').textContent.includes('Position 120 of')")


def test_print_leaves_out_what_cannot_be_pressed(browser: Browser, report: Report) -> None:
    with opened(browser, report.path, color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert not any(one.is_visible() for one in page.locator("button, form, summary").all())
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert in_strips(page, "view.signal('ink')") == "#1b1d21"
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert theme(page) == "dark"
        assert page.pdf().startswith(b"%PDF-")


def test_columns_are_read_as_they_were_written(page: Page) -> None:
    """Also of the types that this page does not happen to have."""
    cases = {"u1": [0, 255], "u2": [0, 65535], "i4": [-1, 2**31 - 1], "f4": [0.5, None], "f8": [2**40, -1]}
    for kind, values in cases.items():
        numbers = np.array([np.nan if value is None else value for value in values]).astype(f"<{kind}")
        column = {"type": kind, "bytes": b64encode(numbers.tobytes()).decode()}
        assert page.evaluate("(one) => rowsOf({ one }).map((row) => row.one)", column) == values, kind
