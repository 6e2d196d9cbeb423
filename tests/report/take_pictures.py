"""`make pictures`: the top of the page of a training, from the answer down to the strips, as the README shows it.

python tests/report/take_pictures.py RUN/report.html docs/report.png
"""

from __future__ import annotations

import sys
from pathlib import Path

from chromium import find_chromium, opened, running_chromium


def take_picture(report: Path, picture: Path) -> None:
    program = find_chromium()
    if program is None:
        sys.exit(f"{picture} is not taken: there is no Chromium on this machine; on Debian: apt install chromium")
    with running_chromium(program) as browser, opened(browser, report, color_scheme="light") as page:
        strips = page.locator("#nodes canvas").bounding_box()
        if strips is None:
            sys.exit(f"{picture} is not taken: {report} has no strips; give the report of a model that sorts nodes")
        height = int(strips["y"] + strips["height"]) + 12
        page.screenshot(path=picture, full_page=True, clip={"x": 0, "y": 0, "width": 1200, "height": height})


if __name__ == "__main__":
    take_picture(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
