"""Every button of the dashboard, in a browser, against a manager with a real job."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from flintstream.jobs.client import Client
from flintstream.jobs.server import start_detached, stop_running
from flintstream.jobs.spec import JobSpec, token_of
from tests.dashboard.conftest import PHONE, OpenPage, shoot

PROGRAM = Path(__file__).parent / "program.py"
LONG = 60_000
RATE = "2000"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a manager that runs in a process of its own."""
    home = tmp_path_factory.mktemp("home")
    url = start_detached(home, port=0, slots=2)
    client = Client(url, token_of(home))
    yield client
    stop_running(home, cancel_jobs=True)


@pytest.fixture
def job(client: Client) -> str:
    """The id of a job that runs: of the test before, if it left one."""
    for view in client.jobs():
        if not view.has_ended:
            return view.id
    spec = JobSpec(program=str(PROGRAM), arguments=(str(int(time.time() * 1000)), RATE), name="sensor averages")
    return client.submit(spec).id


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LONG / 1000
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.1)


def head_of(page: Page) -> Locator:
    return page.get_by_role("region", name="Job", exact=True)


def press(page: Page, button: str) -> Locator:
    page.get_by_role("button", name=button, exact=True).click()
    return page.get_by_role("dialog")


def expect_status(page: Page, status: str) -> None:
    expect(head_of(page).locator(".badge").first).to_have_text(status, timeout=LONG)


@pytest.mark.row(141, 143)
def test_the_overview_and_the_graph_live(open_page: OpenPage, client: Client, job: str) -> None:
    page = open_page(client.url)
    expect(page.get_by_role("row", name="sensor averages")).to_contain_text("running", timeout=LONG)
    expect(page.locator(".tile", has_text="Slots in use")).to_contain_text("1 of 2")
    expect(page.locator(".tile", has_text="Task managers")).to_contain_text("1")
    page.get_by_role("link", name="sensor averages").click()
    out = page.locator('.fs-graph text[data-uid="readings"][data-field="records_out_per_second"]')
    expect(out).not_to_be_empty(timeout=LONG)
    before = page.locator('.fs-graph text[data-uid="counts"][data-field="watermark"]').text_content()
    expect(page.locator('.fs-graph text[data-uid="counts"][data-field="watermark"]')).not_to_have_text(
        before or "", timeout=LONG
    )
    shoot(page, "job-dataflow")


@pytest.mark.row(146)
def test_panels_of_a_real_job(open_page: OpenPage, client: Client, job: str) -> None:
    page = open_page(f"{client.url}/#/jobs/{job}")
    expect_status(page, "running")
    expected = {
        "performance": "Latency of hot sensors",
        "checkpoints": "All state",
        "records": "to count readings",
        "metrics": "hot readings",
        "logs": "readings",
        "configuration": "program.py",
    }
    for panel, text in expected.items():
        page.goto(f"{client.url}/#/jobs/{job}/{panel}")
        expect(page.locator(".panelhost")).to_contain_text(text, timeout=LONG)
    page.goto(f"{client.url}/#/jobs/{job}/configuration")
    expect(page.locator(".panelhost")).to_contain_text("sink 'hot sensors' is at-least-once")


@pytest.mark.row(93)
def test_state_is_looked_up_and_watched(open_page: OpenPage, client: Client, job: str) -> None:
    page = open_page(f"{client.url}/#/jobs/{job}")
    expect_status(page, "running")
    expect(head_of(page).locator(".tile", has_text="Epoch").locator("dd").first).to_have_text(
        re.compile("[0-9]"), timeout=LONG
    )
    page.goto(f"{client.url}/#/jobs/{job}/state")
    answer = page.get_by_label("Answer")
    page.get_by_label("Key", exact=True).fill("kitchen")
    page.get_by_role("button", name="Look up").click()
    expect(answer).to_contain_text("As of epoch")
    page.get_by_role("button", name="Watch").click()
    expect(answer.get_by_role("listitem").nth(2)).to_be_visible(timeout=LONG)
    page.get_by_role("button", name="Stop watching").click()
    page.get_by_label("Key", exact=True).fill("")
    page.get_by_role("button", name="Scan").click()
    expect(answer.get_by_role("row")).to_have_count(5)


@pytest.mark.row(72, 79, 144)
def test_a_job_is_steered_by_buttons(open_page: OpenPage, client: Client, job: str) -> None:
    page = open_page(f"{client.url}/#/jobs/{job}")
    expect_status(page, "running")
    expect(head_of(page).locator(".tile", has_text="Guarantee")).to_contain_text("at-least-once", timeout=LONG)

    dialog = press(page, "Take savepoint")
    dialog.get_by_label("Comment").fill("by hand")
    dialog.get_by_role("button", name="Take savepoint").click()
    path = dialog.locator("code")
    expect(path).to_be_visible(timeout=LONG)
    taken = path.inner_text()
    assert any(Path(taken).iterdir())
    dialog.get_by_role("button", name="Close").click()
    expect_status(page, "running")

    dialog = press(page, "Rescale")
    dialog.get_by_label("Parallelism").fill("1")
    dialog.get_by_role("button", name="Rescale job").click()
    expect(dialog).to_contain_text("is being rescaled", timeout=LONG)
    dialog.get_by_role("button", name="Close").click()
    expect(head_of(page).locator(".tile", has_text="Parallelism").locator("dd").first).to_have_text("1", timeout=LONG)
    expect_status(page, "running")

    dialog = press(page, "Rescale")
    dialog.get_by_label("Automatic").check()
    dialog.get_by_label("At most").fill("2")
    dialog.get_by_role("button", name="Rescale job").click()
    expect(dialog).to_contain_text("is being rescaled", timeout=LONG)
    dialog.get_by_role("button", name="Close").click()
    expect(head_of(page).locator(".tile", has_text="Parallelism")).to_contain_text("auto 1..2", timeout=LONG)

    dialog = press(page, "Stop")
    dialog.get_by_role("button", name="Stop job").click()
    expect(dialog.locator("code")).to_be_visible(timeout=LONG)
    dialog.get_by_role("button", name="Close").click()
    expect_status(page, "finished")

    dialog = press(page, "Restart")
    dialog.get_by_label("by hand").check()
    dialog.get_by_role("button", name="Restart job").click()
    expect(dialog).to_contain_text("is being restarted", timeout=LONG)
    dialog.get_by_role("button", name="Close").click()
    expect_status(page, "running")

    dialog = press(page, "Cancel")
    dialog.get_by_role("button", name="Cancel job").click()
    expect(dialog).to_contain_text("is being cancelled", timeout=LONG)
    dialog.get_by_role("button", name="Close").click()
    expect_status(page, "canceled")
    assert client.job(job).status == "CANCELED"

    dialog = press(page, "Restart")
    dialog.get_by_role("button", name="Restart job").click()
    expect(dialog).to_contain_text("is being restarted", timeout=LONG)
    dialog.get_by_role("button", name="Close").click()
    expect_status(page, "running")


def test_a_killed_driver_shows_and_the_job_goes_on(open_page: OpenPage, client: Client, job: str) -> None:
    client.rescale(job, 1)  # and no longer by itself: that would be another attempt too
    page = open_page(f"{client.url}/#/jobs/{job}", PHONE, colours="dark")
    expect_status(page, "running")
    until(lambda: client.plan(job).get("attempt") == client.job(job).attempt, "the driver's report")
    attempt = client.job(job).attempt
    os.kill(client.plan(job)["pid"], signal.SIGKILL)
    tile = head_of(page).locator(".tile", has_text="Attempt").locator("dd").first
    expect(tile).to_have_text(str(attempt + 1), timeout=LONG)
    expect(head_of(page).locator(".tile", has_text="Attempt")).to_contain_text("1 restart", timeout=LONG)
    expect_status(page, "running")
    page.goto(f"{client.url}/#/jobs/{job}/exceptions")
    expect(page.get_by_role("listitem").first).to_contain_text("restarted", timeout=LONG)
    shoot(page, "job-phone-dark")


def test_an_ended_job_is_removed(open_page: OpenPage, client: Client, job: str) -> None:
    client.cancel(job)
    page = open_page(f"{client.url}/#/jobs/{job}")
    expect_status(page, "canceled")
    press(page, "Remove").get_by_role("button", name="Remove job").click()
    expect(page.get_by_role("heading", name="All jobs")).to_be_attached(timeout=LONG)
    assert job not in [view.id for view in client.jobs()]
