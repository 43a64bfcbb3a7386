"""Every button asks, sends what it says, shows how it goes, and says what went wrong with what to do about it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.dashboard import samples
from tests.dashboard.conftest import JOB, LOST, OpenPage, shoot
from tests.dashboard.fake_manager import FakeJob, FakeManager

PATH = "/data/savepoints/averages-3"


def dialog_of(page: Page, button: str) -> Locator:
    page.get_by_role("button", name=button, exact=True).click()
    return page.get_by_role("dialog")


def test_cancel(open_page: OpenPage, manager: FakeManager, job: FakeJob, job_url: str) -> None:
    page = open_page(job_url)
    dialog = dialog_of(page, "Cancel")
    expect(dialog).to_contain_text("can be restarted from there")
    dialog.get_by_role("button", name="Cancel job").click()
    expect(dialog).to_contain_text("is being cancelled")
    assert manager.posted("/cancel") == [{}]
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_focused()
    job.view = samples.view(JOB, "sensor averages", "CANCELED")
    manager.tell()
    expect(page.get_by_role("region", name="Job", exact=True)).to_contain_text("canceled")
    expect(page.get_by_role("status").filter(has_text="Job sensor averages: canceled")).to_be_attached()


def test_nothing_is_sent_without_a_yes(open_page: OpenPage, manager: FakeManager, job_url: str) -> None:
    page = open_page(job_url)
    for button in ("Cancel", "Stop", "Take savepoint", "Rescale", "Restart"):
        dialog = dialog_of(page, button)
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(page.get_by_role("button", name=button, exact=True)).to_be_focused()
    assert [method for method, _, _ in manager.calls if method != "GET"] == []


@pytest.mark.parametrize("drain", [False, True])
def test_stop_with_a_savepoint(open_page: OpenPage, manager: FakeManager, job_url: str, drain: bool) -> None:
    manager.results["stop"] = {"path": PATH}
    page = open_page(job_url)
    dialog = dialog_of(page, "Stop")
    dialog.get_by_label("Drain").set_checked(drain)
    dialog.get_by_role("button", name="Stop job").click()
    expect(dialog).to_contain_text(PATH)
    assert manager.posted("/stop") == [{"drain": drain}]


def test_take_a_savepoint_shows_its_path(open_page: OpenPage, manager: FakeManager, job_url: str) -> None:
    manager.results["savepoints"] = {"path": PATH}
    manager.held.clear()
    page = open_page(job_url)
    dialog = dialog_of(page, "Take savepoint")
    dialog.get_by_label("Comment").fill("before the upgrade")
    dialog.get_by_role("button", name="Take savepoint").click()
    expect(dialog.get_by_role("progressbar")).to_be_visible()
    manager.held.set()
    expect(dialog).to_contain_text(PATH)
    expect(dialog.get_by_role("button", name="Copy path of the savepoint")).to_be_visible()
    assert manager.posted("/savepoints") == [{"comment": "before the upgrade"}]
    shoot(page, "fake-savepoint-taken", whole=False)


def test_a_dialog_may_be_closed_while_it_works(open_page: OpenPage, manager: FakeManager, job_url: str) -> None:
    manager.results["savepoints"] = {"path": PATH}
    manager.held.clear()
    page = open_page(job_url)
    dialog = dialog_of(page, "Take savepoint")
    dialog.get_by_role("button", name="Take savepoint").click()
    dialog.get_by_role("button", name="Close, it goes on").click()
    expect(dialog).to_be_hidden()
    manager.held.set()
    messages = page.get_by_role("region", name="Messages")
    expect(messages).to_contain_text(PATH)
    messages.get_by_role("button", name="Close message").click()
    expect(messages).not_to_contain_text(PATH)


def test_rescale_to_a_number(open_page: OpenPage, manager: FakeManager, job_url: str) -> None:
    page = open_page(job_url)
    dialog = dialog_of(page, "Rescale")
    dialog.get_by_label("Parallelism").fill("0")
    dialog.get_by_role("button", name="Rescale job").click()
    assert manager.posted("/rescale") == []
    dialog.get_by_label("Parallelism").fill("4")
    dialog.get_by_role("button", name="Rescale job").click()
    expect(dialog).to_contain_text("is being rescaled")
    assert manager.posted("/rescale") == [{"parallelism": 4}]


def test_rescale_automatically_between_bounds(open_page: OpenPage, manager: FakeManager, job_url: str) -> None:
    page = open_page(job_url)
    dialog = dialog_of(page, "Rescale")
    expect(dialog.get_by_label("At least")).to_be_disabled()
    dialog.get_by_label("Automatic").check()
    expect(dialog.get_by_label("Parallelism")).to_be_disabled()
    dialog.get_by_label("At least").fill("2")
    dialog.get_by_label("At most").fill("6")
    dialog.get_by_role("button", name="Rescale job").click()
    expect(dialog).to_contain_text("is being rescaled")
    assert manager.posted("/rescale") == [{"parallelism": "auto", "least": 2, "most": 6}]


@pytest.mark.parametrize("chosen", [None, "/data/savepoints/averages-1"])
def test_restart_from_a_savepoint_of_the_history(
    open_page: OpenPage, manager: FakeManager, job_url: str, chosen: str | None
) -> None:
    page = open_page(job_url)
    dialog = dialog_of(page, "Restart")
    expect(dialog.get_by_role("radio")).to_have_count(3)
    if chosen is not None:
        dialog.get_by_label("before the upgrade").check()
        dialog.get_by_label("Allow state that no operator takes").check()
    shoot(page, "fake-restart", whole=False)
    dialog.get_by_role("button", name="Restart job").click()
    expect(dialog).to_contain_text("is being restarted")
    assert manager.posted("/restart") == [{"savepoint": chosen, "allow_non_restored": chosen is not None}]


def test_an_ended_job_can_be_removed(open_page: OpenPage, manager: FakeManager, job: FakeJob, job_url: str) -> None:
    job.view = samples.view(JOB, "sensor averages", "CANCELED")
    # What the page had asked of the job just before is not found any more, if the answer is slow.
    page = open_page(job_url, may_say=LOST)
    dialog = dialog_of(page, "Remove")
    dialog.get_by_role("button", name="Remove job").click()
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    assert JOB not in manager.jobs


PROBLEM = {"title": "Wrong moment", "detail": "the job is restarting", "remedy": "try again in a minute", "status": 409}


@pytest.mark.parametrize("how", ["at once", "later"])
def test_a_problem_is_shown_with_its_remedy(open_page: OpenPage, manager: FakeManager, job_url: str, how: str) -> None:
    where = manager.refusals if how == "at once" else manager.results
    where["/savepoints" if how == "at once" else "savepoints"] = PROBLEM
    page = open_page(job_url, may_say=LOST)
    dialog = dialog_of(page, "Take savepoint")
    dialog.get_by_role("button", name="Take savepoint").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the job is restarting")
    expect(dialog.get_by_role("alert")).to_contain_text("What to do: try again in a minute")
    where.clear()
    manager.results["savepoints"] = {"path": PATH}
    dialog.get_by_role("button", name="Take savepoint").click()
    expect(dialog).to_contain_text(PATH)
