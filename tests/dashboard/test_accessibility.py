"""The dashboard for those who use a keyboard, a screen reader, a phone, or the dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard import samples
from tests.dashboard.conftest import DESKTOP, JOB, PHONE, OpenPage, shoot
from tests.dashboard.fake_manager import FakeJob, FakeManager

AUDIT = (Path(__file__).parent / "audit.js").read_text()
PANELS = (
    "dataflow",
    "performance",
    "checkpoints",
    "records",
    "state",
    "metrics",
    "exceptions",
    "logs",
    "configuration",
)
LOOKS = {
    "light": (DESKTOP, "light"),
    "dark": (DESKTOP, "dark"),
    "phone": (PHONE, "light"),
    "phone-dark": (PHONE, "dark"),
}


def audited(page: Page) -> list[str]:
    return page.evaluate(AUDIT)


@pytest.mark.parametrize("look", LOOKS)
def test_all_pages_pass_the_audit(open_page: OpenPage, manager: FakeManager, job: FakeJob, look: str) -> None:
    size, colours = LOOKS[look]
    job.exceptions = [samples.failure()]
    job.status = samples.status(slow="means")
    for number, status in enumerate(("FINISHED", "FAILED", "CANCELED", "RESTARTING", "CREATED")):
        name = f"{number:032x}"
        manager.jobs[name] = FakeJob(samples.view(name, f"job {number}", status))
    page = open_page(manager.url, size, colours=colours)
    expect(page.get_by_role("link", name="sensor averages")).to_be_visible()
    assert audited(page) == []
    shoot(page, f"audit-{look}-overview")
    for panel in PANELS:
        page.goto(f"{manager.url}/#/jobs/{JOB}/{panel}")
        expect(page.get_by_role("navigation", name="Parts of this job")).to_be_visible()
        expect(page.locator(".panelhost")).not_to_be_empty()
        assert audited(page) == [], panel
        shoot(page, f"audit-{look}-{panel}")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_dialogs_pass_the_audit(open_page: OpenPage, job_url: str, colours: str) -> None:
    page = open_page(job_url, PHONE, colours=colours)
    for button in ("Cancel", "Stop", "Take savepoint", "Rescale", "Restart"):
        page.get_by_role("button", name=button, exact=True).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert audited(page) == [], button
        page.keyboard.press("Escape")


def test_the_audit_finds_faults(open_page: OpenPage, job_url: str) -> None:
    page = open_page(job_url)
    expect(page.get_by_role("heading", level=1)).to_have_text("sensor averages")
    page.evaluate("""() => {
        const main = document.querySelector("main");
        main.append(document.createElement("button"), document.createElement("h4"), document.createElement("h1"));
        const pale = document.createElement("p");
        pale.textContent = "hardly to be read";
        pale.style.color = "rgb(200, 200, 200)";
        main.append(pale);
        const wide = document.createElement("div");
        wide.style.cssText = "width: 3000px; height: 1px";
        main.append(wide);
    }""")
    words = " ".join(audited(page))
    for fault in ("no name: button", "heading skips", "2 of h1", "contrast", "wider than the screen"):
        assert fault in words


def test_the_tab_key_walks_the_page_in_its_order(open_page: OpenPage, job_url: str) -> None:
    page = open_page(job_url)
    expect(page.locator("g.fs-operator").first).to_be_visible()
    stops: list[tuple[str, float]] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate("""() => {
            const now = document.activeElement;
            if (!now || now === document.body) return null;
            const box = now.matches("g.fs-operator") ? now.querySelector(".fs-box") : null;
            const style = getComputedStyle(box ?? now);
            const seen = box ? parseFloat(style.strokeWidth) >= 3 : style.outlineStyle !== "none";
            const all = [...document.querySelectorAll("*")];
            return [now.getAttribute("aria-label") ?? now.textContent.trim(), all.indexOf(now), seen];
        }""")
        if found is None:
            break
        assert found[2], f"the focus does not show on {found[0]}"
        stops.append((found[0], found[1]))
    names = [name for name, _ in stops]
    assert names[0] == "Skip to content"
    places = [place for _, place in stops]
    assert places == sorted(places)
    for name in ("Take savepoint", "Cancel", "Logs"):
        assert name in names
    assert any(name.startswith("mean per sensor: ") or "mean per sensor:" in name for name in names)
    assert names.index("Cancel") < names.index("Dataflow") < names.index("Logs")


def test_the_first_link_skips_to_the_content(open_page: OpenPage, job_url: str) -> None:
    page = open_page(job_url)
    expect(page.get_by_role("heading", level=1)).to_have_text("sensor averages")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Take savepoint")).to_be_focused()


def test_nothing_moves_for_those_who_asked_for_that(open_page: OpenPage, job_url: str) -> None:
    page = open_page(job_url, reduced_motion="reduce")
    expect(page.locator("#connection")).to_have_text("Live")
    moving = page.evaluate("document.getAnimations().filter((each) => each.playState === 'running').length")
    assert moving == 0


@pytest.mark.parametrize(("zone", "time"), [("UTC", "03:33:21"), ("Asia/Tokyo", "12:33:21")])
def test_times_are_in_the_readers_zone(
    browser: Browser, manager: FakeManager, job: FakeJob, zone: str, time: str
) -> None:
    context = browser.new_context(locale="en-GB", timezone_id=zone)
    page = context.new_page()
    page.goto(f"{manager.url}/#/jobs/{JOB}/configuration")
    expect(page.locator(".facts div", has_text="Submitted")).to_contain_text(time)
    context.close()
