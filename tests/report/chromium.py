"""A real browser, and pages opened in it as a reader opens them: from a file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, TimeoutError, sync_playwright

ARGUMENTS = [
    "--no-sandbox",  # which root may not use
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# The figure of the strips; the place of a position of the order in one of them, in pixels of the window; its colour.
STRIPS = """
const number = [...document.querySelectorAll("[data-figure]")].findIndex((one) => one.closest("#nodes"));
const { view, datasets } = payload.figures[number];
const canvas = view.container().querySelector("canvas"), box = canvas.getBoundingClientRect();
const placeOf = (position, strip) => [
  box.left + view.padding().left + view.origin()[0] + view.scale("x")(position),
  box.top + view.padding().top + view.origin()[1] + view.scale("y")(strip + 0.5),
];
const coloursAt = (places) => {
  const copy = document.createElement("canvas"), sharpness = canvas.width / box.width;
  Object.assign(copy, { width: canvas.width, height: canvas.height });
  const drawn = copy.getContext("2d", { willReadFrequently: true });
  drawn.drawImage(canvas, 0, 0);
  return places.map(([position, strip]) => {
    const [x, y] = placeOf(position, strip);
    const seen = drawn.getImageData((x - box.left) * sharpness, (y - box.top) * sharpness, 1, 1).data;
    return "#" + [...seen.slice(0, 3)].map((part) => part.toString(16).padStart(2, "0")).join("").toUpperCase();
  });
};
"""
# How far texts stand out from the paper behind them: the contrast of the Web Content Accessibility Guidelines.
CONTRAST = """(selector) => {
  const parsed = (text) => { const [r, g, b, a] = text.match(/[\\d.]+/g).map(Number); return [[r, g, b], a ?? 1]; };
  const linear = (part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255) + 0.05;
  const paper = parsed(getComputedStyle(document.body).backgroundColor)[0], behind = light(paper);
  return [...document.querySelectorAll(selector)].map((one) => {
    const style = getComputedStyle(one);
    let [ink, opacity] = parsed(one.namespaceURI.includes("svg") ? style.fill : style.color);
    for (let around = one; around; around = around.parentElement) opacity *= Number(getComputedStyle(around).opacity);
    const seen = light(ink.map((part, i) => part * opacity + paper[i] * (1 - opacity)));
    return Math.max(seen, behind) / Math.min(seen, behind);
  });
}"""


def find_chromium() -> str | None:
    names = ("chromium", "google-chrome", "chromium-browser", "/usr/bin/chromium")
    return next((found for found in map(shutil.which, names) if found), None)


@contextmanager
def running_chromium(program: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, path: Path, **options: Any) -> Iterator[Page]:
    """The page when all is drawn. It must say nothing on the console, ask nothing, and fetch nothing but itself."""
    context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("request", lambda request: complaints.append(f"request: {request.url[:200]}"))

    def ask(dialog: Any) -> None:
        complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", ask)
    try:
        page.goto(path.as_uri())
        try:
            page.wait_for_selector("html[data-drawn=yes]", state="attached", timeout=60_000)
        except TimeoutError:
            raise AssertionError(complaints) from None
        yield page
        page.wait_for_timeout(1)  # so that what was reported last is here
    finally:
        context.close()
    own = f"request: {path.as_uri()}"
    inside = ("request: data:", "request: blob:")
    left = [one for one in complaints if one != own and not one.startswith(inside)]
    assert not left, left


def in_strips(page: Page, expression: str, argument: object = None) -> Any:
    """What a JavaScript expression is, of `given` and of the names above."""
    return page.evaluate(f"(given) => {{ {STRIPS} return {expression}; }}", argument)


def shown_range(page: Page) -> tuple[float, float]:
    """The positions that the strips show, once all is drawn."""
    low, high = in_strips(page, "view.runAsync().then(() => [view.signal('low'), view.signal('high')])")
    return low, high


def point_at(page: Page, position: float, strip: int = 1) -> tuple[float, float]:
    """Move the mouse to the middle of a node."""
    page.locator("#nodes canvas").scroll_into_view_if_needed()
    x, y = in_strips(page, "placeOf(given[0] + 0.5, given[1])", [position, strip])
    page.mouse.move(x, y)
    return x, y


def contrasts(page: Page, selector: str) -> list[float]:
    found: list[float] = page.evaluate(CONTRAST, selector)
    return found


def wait_until(page: Page, condition: str) -> None:
    """Wait until an expression is true; the page forbids what `wait_for_function` does."""
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {condition}")


def open_tables(page: Page) -> None:
    """The data table of every figure."""
    for summary in page.locator("summary").all():
        summary.click()
    wait_until(page, "[...document.querySelectorAll('details')].every((one) => one.querySelector('td'))")
