"""Chromium for all tests of a module, pages that may not complain, and a made-up manager."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.dashboard import samples
from tests.dashboard.fake_manager import FakeJob, FakeManager

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
DESKTOP, PHONE = (1440, 900), (360, 740)
JOB = "0123456789abcdef0123456789abcdef"
OpenPage = Callable[..., Page]
LOST, BLOCKED = "Failed to load resource", "The action has been blocked"


# Not for the whole session: while it is open, an event loop runs in this thread, and other tests start their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without a window."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        missing = "there is no Chromium on this machine (Debian and Ubuntu: apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens pages; at the end each must have run without an error, and without asking for more than its policy allows.

    `may_say` is for tests that give the browser reason to complain on its console, through no fault of the page: LOST
    for requests that fail, BLOCKED for what its policy kept away.
    """
    contexts: list[Any] = []
    complaints: list[str] = []

    def open_at(
        url: str, size: tuple[int, int] = DESKTOP, *, colours: str = "light", may_say: str | None = None, **more: Any
    ) -> Page:
        viewport = {"width": size[0], "height": size[1]}
        context = browser.new_context(
            viewport=viewport, color_scheme=colours, locale="en-GB", timezone_id="UTC", has_touch=size == PHONE, **more
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if _is_complaint(said, may_say) else None)
        page.goto(url)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert not complaints


def _is_complaint(said: Any, may_say: str | None) -> bool:
    return said.type in ("error", "warning") and not (may_say is not None and may_say in said.text)


@pytest.fixture
def manager() -> Iterator[FakeManager]:
    """A made-up manager without jobs."""
    with FakeManager() as manager:
        yield manager


@pytest.fixture
def job(manager: FakeManager) -> FakeJob:
    """A running job of the made-up manager."""
    made = FakeJob(
        samples.view(JOB, "sensor averages"),
        samples.status(),
        samples.plan(),
        samples.epochs(),
        savepoints=samples.savepoints(),
        logs={"out": "a 21.5\nb 19.0\n", "err": "INFO started\n"},
        states=[
            {
                "operator": "means",
                "operator_name": "mean per sensor",
                "name": "mean",
                "kind": "value",
                "windowed": False,
                "uncommitted": True,
            }
        ],
        values={"kitchen": 21.5, "cellar": {"mean": 12.0, "count": 7}, "kiosk": 18.25},
    )
    manager.jobs[JOB] = made
    return made


@pytest.fixture
def job_url(manager: FakeManager, job: FakeJob) -> str:
    """The address of the running job's page."""
    return f"{manager.url}/#/jobs/{JOB}"


def shoot(page: Page, name: str, *, whole: bool = True) -> None:
    """Keep a picture of a page."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=whole, animations="disabled")
