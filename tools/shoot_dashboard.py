"""Takes the pictures of the dashboard that README and docs show, of real jobs: `python -m tools.shoot_dashboard`.

Starts a manager of its own with three jobs on the in-process runtime, waits until there is something to see, and ends
it all again. Needs Chromium, about a minute, and a machine that has nothing else to do.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from flintstream.jobs.client import Client
from flintstream.jobs.server import start_detached, stop_running
from flintstream.jobs.spec import JobSpec, token_of

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "images"
PROGRAM = ROOT / "tests" / "dashboard" / "program.py"
SECONDS = 60


def main() -> int:
    """Take all pictures; return the exit status."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.stderr.write("there is no Chromium on this machine\n")
        return 1
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        client = Client(start_detached(home, port=0, slots=4), token_of(home))
        try:
            job = submit(client, "sensor averages", 20_000)
            short = submit(client, "nightly totals", 500)
            submit(client, "door counters", 3_000)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
                shoot_all(browser, client, job, short)
                browser.close()
        finally:
            stop_running(home, cancel_jobs=True)
    return 0


def submit(client: Client, name: str, rate: int) -> str:
    """Start a job; return its id."""
    start_ms = str(int(time.time() * 1000))
    return client.submit(JobSpec(program=str(PROGRAM), arguments=(start_ms, str(rate), name), name=name)).id


def shoot_all(browser: Browser, client: Client, job: str, short: str) -> None:
    """Take the pictures, when the charts have something to show."""
    overview = page_of(browser, client.url, 1280, 760, "light")
    watched = page_of(browser, f"{client.url}/#/jobs/{job}/performance", 1280, 860, "dark")
    overview.wait_for_timeout(SECONDS * 500)
    client.stop(short)
    overview.wait_for_timeout(SECONDS * 500)
    overview.screenshot(path=PICTURES / "dashboard-overview.png")
    watched.screenshot(path=PICTURES / "dashboard-performance.png")
    dataflow = page_of(browser, f"{client.url}/#/jobs/{job}/dataflow", 1280, 900, "light")
    dataflow.locator(".fs-graph").wait_for()
    dataflow.wait_for_timeout(1500)
    dataflow.screenshot(path=PICTURES / "dashboard-job.png")
    phone = page_of(browser, f"{client.url}/#/jobs/{job}", 390, 844, "dark")
    phone.locator(".fs-graph").wait_for()
    phone.wait_for_timeout(1500)
    phone.screenshot(path=PICTURES / "dashboard-phone.png")
    for path in PICTURES.glob("dashboard-*.png"):
        # A page has few colours: this halves what everybody clones. Octrees keep the rare ones.
        picture = Image.open(path).convert("RGB")
        picture.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(path, optimize=True)


def page_of(browser: Browser, url: str, width: int, height: int, colours: str) -> Page:
    """Open a page."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=colours, locale="en-GB")
    page = context.new_page()
    page.goto(url)
    return page


if __name__ == "__main__":
    sys.exit(main())
