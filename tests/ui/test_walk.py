"""What somebody does who has never seen a terminal, in a real browser at a real box."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from mesos_gpu.local.record import Records
from tests.support.box.live import LiveBox
from tests.support.ui.browser import PATIENCE_MS, Reader
from tests.ui.catalogue import text

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(600)]
expect.set_options(timeout=PATIENCE_MS)

SLEEP = "echo ready; exec sleep 1000"


@pytest.fixture(autouse=True)
def nothing_of_it_stays(site: LiveBox) -> Iterator[None]:
    """Takes away what a walk that stopped half way has left, so that the next one finds its GPUs."""
    yield
    for app in site.marathon("/v2/apps")["apps"]:
        site.ok("app", "remove", app["id"], "--force")
    site.until("all GPUs are free", lambda: site.gpus_free() == 4)


def settled(site: LiveBox) -> list[str]:
    """Wait until no deployment goes on, which would refuse the next change; return the tasks that there are then."""
    site.until("what was asked for is done", lambda: not site.marathon("/v2/deployments"))
    return [str(one["id"]) for one in site.tasks("walk/web")]


def test_a_service_from_its_form_to_its_end(site: LiveBox, reader: Reader) -> None:
    page = reader.go()
    page.get_by_role("link", name="Create").first.click()
    page.get_by_label("Id", exact=True).fill("/walk/web")
    page.get_by_label("Command").fill(SLEEP)
    page.get_by_label("GPUs of each").fill("1")
    page.get_by_label("Memory of each, MiB").fill("32")
    written = json.loads(page.get_by_label("JSON", exact=True).input_value())
    assert written == {"id": "/walk/web", "cmd": SLEEP, "instances": 1, "cpus": 0.1, "mem": 32, "gpus": 1}
    reader.button("Review").click()
    reader.confirm("Create", text("plan.starts", count=1), text("plan.gpus", count=1), text("plan.allFit", count=1))
    expect(page.locator(".facts .state-running")).to_be_visible()
    settled(site)

    page.get_by_role("link", name="Logs", exact=True).first.click()
    expect(page.locator("pre.log")).to_contain_text("ready")

    page.get_by_role("link", name="Instances", exact=True).click()
    reader.button("Scale").click()
    page.get_by_role("dialog").get_by_label("Instances").fill("2")
    reader.confirm("Scale", text("plan.more", count=1))
    expect(page.get_by_text("2 of 2")).to_be_visible()
    settled(site)

    page.get_by_role("link", name="Edit", exact=True).click()
    page.get_by_label("Labels, NAME=value on each line").fill("team=walk")
    page.get_by_label("Command").fill("echo changed; exec sleep 1000")
    reader.button("Review").click()
    expect(page.get_by_role("dialog").locator(".diff .add").first).to_be_visible()
    reader.confirm("Change", text("plan.replaces", count=2))
    page.get_by_role("link", name="Configuration", exact=True).click()
    expect(page.locator("pre.code")).to_contain_text('"team": "walk"')
    settled(site)
    expect(page.locator(".facts .state-running")).to_be_visible()

    page.get_by_role("combobox").select_option(index=1)
    expect(page.locator(".diff .remove").first).to_be_visible()
    reader.button("Roll back").click()
    reader.confirm("Roll back")
    site.until("it is as it was", lambda: site.marathon("/v2/apps/walk/web")["app"]["cmd"] == SLEEP)
    first, second = settled(site)
    expect(page.locator(".facts .state-running")).to_be_visible()

    page.get_by_role("link", name="Instances", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(2)
    row = page.locator("tbody tr", has=page.locator(f'a[title="{first}"]'))
    row.get_by_role("button", name="Kill").click()
    reader.confirm("Kill", text("kill.replaces"))
    site.until(
        "another runs in its place, and the second as before",
        lambda: len(now := {one["id"] for one in site.tasks("walk/web")} - {first}) == 2 and second in now,
    )
    settled(site)

    reader.button("Remove").click()
    reader.confirm("Remove")
    expect(page.get_by_role("link", name="/walk/web")).to_have_count(0)
    site.until("it is gone", lambda: site.gpus_free() == 4)


def test_what_cannot_be_placed_shows_what_why_says(site: LiveBox, reader: Reader) -> None:
    site.ok("app", "add", "-", text=json.dumps({"id": "/big", "cmd": "sleep 9", "gpus": 3, "mem": 32}))
    page = reader.go("#/services/big?tab=why")
    told = json.loads(site.ok("why", "big", "-o", "json"))
    expect(page.locator(".headline")).to_have_text(told["headline"])
    for remedy in told["remedies"]:
        expect(page.locator(".why li", has_text=remedy)).to_be_visible()
    for agent in told["agents"]:
        expect(page.get_by_role("row", name=agent["agent"])).to_contain_text(agent["lacks"][0]["text"])
    expect(page.get_by_role("heading", name=text("funnel.title"))).to_be_visible()
    expect(page.locator(".facts .state-waiting")).to_be_visible()
    site.ok("app", "remove", "big")


def test_what_a_server_refuses_stands_at_its_field(reader: Reader) -> None:
    page = reader.go("#/create")
    page.get_by_label("JSON", exact=True).fill('{"id": "/walk/bad", "cmd": "x", "gpus": 0.5}')
    reader.button("Review").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    page.keyboard.press("Escape")
    field = page.get_by_label("GPUs of each")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#gpus-about")).not_to_be_empty()
    page.get_by_label("JSON", exact=True).fill("{")
    expect(reader.button("Review")).to_be_disabled()


@pytest.mark.parametrize("who", ["marathon", "master", "agent"])
def test_the_page_goes_on_by_itself_after_a_kill(site: LiveBox, reader: Reader, who: str) -> None:
    page = reader.go("#/machines")
    expect(page.locator("tbody .state-running")).to_have_count(2)
    page.evaluate("window.sameDocument = true")
    box = Records(site.work_dir).read()
    assert box is not None
    service = box.agents[0] if who == "agent" else getattr(box, who)
    said = {"marathon": text("away.marathon"), "master": text("away.master")}
    if who in said:
        os.kill(box.pid, signal.SIGSTOP)  # nobody starts it again before the page was looked at
    try:
        os.kill(service.pid, signal.SIGKILL)
        if who in said:  # an agent is back before anybody has looked
            expect(page.locator(".banner", has_text=said[who])).to_be_visible()
    finally:
        os.kill(box.pid, signal.SIGCONT)
    expect(page.locator(".banner")).to_have_count(0)
    expect(page.locator("tbody .state-running")).to_have_count(2)
    everywhere = {"id": f"/after-{who}", "cmd": "sleep 99", "mem": 32, "gpus": 2, "instances": 2}
    site.ok("app", "add", "-", "--wait", text=json.dumps(everywhere))
    page.get_by_role("link", name="Services").click()
    expect(page.get_by_role("row", name=f"/after-{who}").locator(".state-running")).to_be_visible()
    assert page.evaluate("window.sameDocument") is True
    site.ok("app", "remove", f"after-{who}")
    site.until("its GPUs are free", lambda: site.gpus_free() == 4)
