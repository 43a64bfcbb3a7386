"""The page without its manager, and in front of one that wants to know who asks."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.dashboard import samples
from tests.dashboard.conftest import JOB, LOST, OpenPage, shoot
from tests.dashboard.fake_manager import FakeJob, FakeManager


def test_a_lost_connection_shows_and_comes_back(
    open_page: OpenPage, manager: FakeManager, job: FakeJob, job_url: str
) -> None:
    page = open_page(job_url, may_say=LOST)
    expect(page.locator("#connection")).to_have_text("Live")
    manager.go_away()
    expect(page.get_by_role("alert")).to_contain_text("No connection to the manager.")
    expect(page.get_by_role("heading", level=1)).to_have_text("sensor averages")
    shoot(page, "fake-connection-lost", whole=False)
    job.status = samples.status(500, 777.0)
    manager.is_away = False
    expect(page.locator("#connection")).to_have_text("Live", timeout=20_000)
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.get_by_role("region", name="Job", exact=True)).to_contain_text("777/s")


def test_a_manager_that_is_away_at_first_is_asked_again(
    open_page: OpenPage, manager: FakeManager, job: FakeJob
) -> None:
    page = open_page(manager.url, may_say=LOST)
    expect(page.get_by_role("link", name="sensor averages")).to_be_visible()
    manager.go_away()
    page.get_by_role("link", name="sensor averages").click()
    expect(page.get_by_text("flintstream cluster status")).to_be_visible()
    manager.is_away = False
    expect(page.get_by_role("heading", level=1)).to_have_text("sensor averages")


def test_another_job_shows_up_without_a_reload(open_page: OpenPage, manager: FakeManager) -> None:
    page = open_page(manager.url)
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    expect(page.locator("#connection")).to_have_text("Live")
    manager.jobs[JOB] = FakeJob(samples.view(JOB, "just submitted", "CREATED"))
    manager.tell()
    expect(page.get_by_role("link", name="just submitted")).to_be_visible()
    manager.jobs[JOB].view = samples.view(JOB, "just submitted")
    manager.tell()
    expect(page.get_by_role("row", name="just submitted")).to_contain_text("running")


def test_the_token_is_asked_for_once(open_page: OpenPage) -> None:
    with FakeManager(token="open-sesame") as manager:
        manager.jobs[JOB] = FakeJob(samples.view(JOB, "guarded"), samples.status(), samples.plan())
        page = open_page(manager.url, may_say=LOST)
        box = page.get_by_label("Token")
        expect(box).to_be_focused()
        box.fill("guess")
        page.get_by_role("button", name="Open the dashboard").click()
        expect(page.get_by_role("alert")).to_contain_text("Look into the file named token.")
        shoot(page, "fake-token")
        box.fill("open-sesame")
        box.press("Enter")
        expect(page.get_by_role("link", name="guarded")).to_be_visible()
        expect(page.locator("#connection")).to_have_text("Live")
        page.reload()
        expect(page.get_by_role("link", name="guarded")).to_be_visible()
        assert "open-sesame" not in page.content()
        stored = page.evaluate("[Object.values(localStorage), document.cookie]")
        assert "open-sesame" not in str(stored)


def test_the_colours_follow_the_system_or_the_button(open_page: OpenPage, manager: FakeManager) -> None:
    page = open_page(manager.url, colours="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    button = page.get_by_role("button", name="Colours: Auto")
    button.click()
    expect(page.get_by_role("button", name="Colours: Light")).to_be_visible()
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light
    page.get_by_role("button", name="Colours: Light").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
