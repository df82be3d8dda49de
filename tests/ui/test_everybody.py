"""Who comes to the page, and how: every door, every page and dialog by keyboard and screen reader, hostile text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Browser, expect

from mesos_gpu.local.record import Records
from tests.support.box.live import LiveBox, live_box
from tests.support.simulated.played import never_ends
from tests.support.ui.browser import PATIENCE_MS, NewReader, Reader
from tests.ui.catalogue import EN, ZH, text

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]
expect.set_options(timeout=PATIENCE_MS)

LOADING = re.compile("Loading …|正在加载")
HOSTILE = "<img src=x onerror=alert(1)>\u202etxt.exe\u200f\u001b[31mred" + "x" * 10_000
SERVICE = {
    "id": "/access/web",
    "cmd": r"printf '\033[31m<img src=x onerror=alert(1)>\033[0m plain\n'; exec sleep 1000",
    "mem": 32,
    "gpus": 1,
    "labels": {"HAPROXY_URL": "javascript:alert(1)", "evil": HOSTILE, HOSTILE[:60]: "x"},
    "env": {"EVIL": HOSTILE},
}
WAITS = {"id": "/access/big", "cmd": "sleep 9", "gpus": 3, "mem": 32, "labels": {"evil": HOSTILE}}
CONTAINER = {"name": "c", "exec": {"command": {"shell": "sleep 1000"}}, "resources": {"cpus": 0.1, "mem": 32}}
POD = {"id": "/access/pod", "containers": [CONTAINER], "labels": {"evil": HOSTILE}}
JOB = {"id": "access", "run": {"cmd": "true", "cpus": 0.1, "mem": 32, "disk": 0}, "labels": {"evil": HOSTILE[:80]}}
FAILS = {"id": "/access/fails", "cmd": "echo '<script>alert(1)</script>' >&2; exit 3", "mem": 32}


@pytest.fixture(scope="module")
def busy(site: LiveBox) -> Iterator[LiveBox]:
    """The box with a service that runs, one that waits and one that fails, whose texts are those of an enemy."""
    for app in (SERVICE, WAITS, FAILS):
        requests.post(site.status()["marathon"]["url"] + "/v2/apps", json=app, timeout=20).raise_for_status()
    url = site.status()["marathon"]["url"]
    requests.post(f"{url}/v2/pods", json=POD, timeout=20).raise_for_status()
    requests.post(f"{url}/v1/jobs", json=JOB, timeout=20).raise_for_status()
    site.until("the pod runs", lambda: site.marathon("/v2/pods/access/pod::status")["status"] == "STABLE")
    site.until("it runs", lambda: site.marathon("/v2/apps/access/web")["app"]["tasksRunning"] == 1)
    site.until("it has failed", lambda: "lastTaskFailure" in site.marathon("/v2/apps/access/fails")["app"])
    yield site
    requests.delete(f"{url}/v2/pods/access/pod?force=true", timeout=20).raise_for_status()
    requests.delete(f"{url}/v1/jobs/access?stopCurrentJobRuns=true", timeout=20).raise_for_status()
    for app in (SERVICE, WAITS, FAILS):
        url = f"{site.status()['marathon']['url']}/v2/apps{app['id']}?force=true"
        requests.delete(url, timeout=20).raise_for_status()
    site.until("all GPUs are free", lambda: site.gpus_free() == 4)


def places(site: LiveBox) -> list[str]:
    """Return every page, with what is on it."""
    task = site.tasks("access/web")[0]
    site.until("the pod runs", lambda: len(site.marathon("/v2/pods/access/pod::status")["instances"]) == 1)
    (pod,) = site.marathon("/v2/pods/access/pod::status")["instances"]
    tabs = ("instances", "why", "configuration", "logs", "events", "endpoints", "volumes")
    return [
        *(f"#/{page}" for page in ("overview", "services", "create", "gpus", "machines", "deployments")),
        *(f"#/{page}" for page in ("events", "roles", "frameworks", "usage", "nowhere", "edit/access/web")),
        *(f"#/services/access/web?tab={tab}" for tab in tabs),
        "#/services/access/big?tab=why",
        "#/services?view=tree",
        "#/create?kind=pod",
        "#/create?kind=job",
        "#/services/access",
        *(f"#/services/access/pod?tab={tab}" for tab in ("instances", "logs")),
        f"#/instances/{pod['containers'][0]['containerId']}",
        "#/services/access/fails?tab=logs",
        *(
            f"#/instances/{task['id']}?tab={tab}"
            for tab in ("timeline", "gpus", "files", "stdout", "terminal", "console")
        ),
        f"#/machines/{task['slaveId']}",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_shuts_anybody_out(busy: LiveBox, new_reader: NewReader, scheme: str) -> None:
    reader = new_reader(color_scheme=scheme, locale="en-US" if scheme == "light" else "zh-CN")
    found: dict[str, Any] = {}
    for place in places(busy):
        page = reader.go(place)
        expect(page.locator("main")).not_to_contain_text(LOADING)
        assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0, place
        found[place] = reader.violations()
    assert {place: wrong for place, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_dialog_shuts_anybody_out_and_each_says_what_will_happen(
    busy: LiveBox, new_reader: NewReader, scheme: str
) -> None:
    reader = new_reader(color_scheme=scheme)
    task = busy.tasks("access/web")[0]
    dialogs = {
        "#/services/access/web": ("Scale", "Restart", "Suspend", "Remove", "Keys"),
        f"#/instances/{task['id']}": ("Kill",),
        f"#/machines/{task['slaveId']}": ("Plan maintenance", "Drain"),
        "#/services/access": ("Run now",),
        "#/services/access/pod": ("Scale", "Suspend", "Remove"),
        "#/deployments": ("Stop",),
        "#/roles": ("Quota of a role",),
        "#/edit/access/web": ("Review",),
    }
    for place, labels in dialogs.items():
        page = reader.go(place)
        for label in labels:
            button = page.get_by_role("button", name=label, exact=True).first
            button.click()
            dialog = page.get_by_role("dialog")
            expect(dialog).to_be_visible()
            assert reader.violations() == [], (place, label)
            if label not in ("Keys", "Quota of a role"):
                expect(dialog.locator(".will li").first).not_to_be_empty()
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
            expect(button).to_be_focused()


def test_what_enemies_write_is_text(busy: LiveBox, reader: Reader) -> None:
    reader.page.on("dialog", lambda dialog: reader.complaints.append(f"a script ran: {dialog.message}"))
    page = reader.go("#/services/access/web?tab=logs")
    log = page.locator("pre.log")
    expect(log).to_contain_text("<img src=x onerror=alert(1)> plain")
    expect(log.locator(".ansi-red")).to_have_text("<img src=x onerror=alert(1)>")
    assert page.locator("a[href^='javascript']").count() == 0
    page = reader.go("#/services/access/fails?tab=logs")
    expect(page.locator("pre.log")).to_contain_text("<script>alert(1)</script>")


def test_a_command_runs_where_the_instance_does(busy: LiveBox, reader: Reader) -> None:
    page = reader.go(f"#/instances/{busy.tasks('access/web')[0]['id']}?tab=console")
    page.get_by_label("Command").fill("nvidia-smi -L; echo in $MARATHON_APP_ID")
    reader.button("Run").click()
    said = page.get_by_role("log", name="Console")
    expect(said).to_contain_text("in /access/web")
    expect(said.get_by_text("GPU 0:")).to_have_count(1)


def test_a_terminal_takes_what_is_typed_and_tells_how_it_ended(busy: LiveBox, reader: Reader) -> None:
    page = reader.go(f"#/instances/{busy.tasks('access/web')[0]['id']}?tab=terminal")
    page.get_by_label("Command").focus()
    page.keyboard.press("Enter")
    screen = page.locator(".xterm-rows")
    expect(screen).to_contain_text("#")  # the shell asks
    page.keyboard.type("echo $((6*7)) grün 你好; nvidia-smi -L; echo $MARATHON_APP_ID; stty size\n")
    expect(screen).to_contain_text("42 grün 你好")
    expect(screen).to_contain_text("GPU 0: ")
    page.keyboard.type("clear; echo at work; sleep 1000\n")
    expect(screen).not_to_contain_text("42 grün")
    expect(screen).to_contain_text("at work")
    page.keyboard.press("Control+c")
    page.keyboard.type("echo interrupted with $?\n")
    expect(screen).to_contain_text("interrupted with 130")
    page.set_viewport_size({"width": 700, "height": 500})
    page.keyboard.type("clear; while sleep 0.2; do stty size; done\n")
    expect(screen).to_contain_text(re.compile(r"\b7\d\b"))
    page.keyboard.press("Control+c")
    assert reader.violations() == []
    page.keyboard.press("Shift+F6")
    expect(reader.button("Close the terminal")).to_be_focused()
    page.locator(".xterm-helper-textarea").focus()
    page.keyboard.type("clear; exit 3\n")
    expect(page.get_by_role("status")).to_have_text(["", text("terminal.ended", status=3)])


def test_everything_is_reached_by_keys(busy: LiveBox, reader: Reader) -> None:
    page = reader.go("#/overview")
    keys = page.keyboard
    keys.press("g")
    keys.press("s")
    expect(page).to_have_url(f"{reader.url}/ui/#/services")
    keys.press("/")
    keys.type("access/b")
    expect(page).to_have_url(f"{reader.url}/ui/#/services?q=access%2Fb")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator("tbody a").first.focus()
    keys.press("Enter")
    expect(page.get_by_role("heading", name="/access/big")).to_be_visible()
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    keys.press("Escape")
    keys.press("c")
    expect(page.get_by_label("Id", exact=True)).to_be_visible()
    page.get_by_label("Id", exact=True).focus()
    keys.type("no-shortcut")
    expect(page.get_by_label("Id", exact=True)).to_have_value("/no-shortcut")


def test_nothing_is_lost_on_a_narrow_screen_or_at_twice_the_size(busy: LiveBox, new_reader: NewReader) -> None:
    reader = new_reader(viewport={"width": 320, "height": 640})
    for place in places(busy):
        page = reader.go(place)
        wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wider <= 0, f"{place} is {wider} pixels wider than a narrow screen"


def test_the_language_is_the_readers_and_can_be_changed(busy: LiveBox, new_reader: NewReader) -> None:
    page = new_reader(locale="zh-CN").go("#/services")
    expect(page.get_by_role("heading", name="服务")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "zh-Hans"
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("heading", name="Services")).to_be_visible()


def test_master_and_agent_lead_browsers_to_the_page_and_programs_nowhere(busy: LiveBox) -> None:
    box = Records(busy.work_dir).read()
    assert box is not None
    for url in (box.master.url, box.agents[0].url):
        answer = requests.get(url, headers={"Accept": "text/html"}, timeout=20)
        assert answer.url.startswith(f"{box.marathon.url}/ui/"), url
        assert answer.ok
        assert requests.get(url, timeout=20).status_code == 404
    assert busy.ok("ui", "--print") == f"{box.marathon.url}/ui/\n"
    assert json.loads(busy.ok("status", "-o", "json"))["marathon"]["url"] == box.marathon.url


def test_who_has_to_log_in_is_asked_by_the_page_and_forgotten_when_it_is_left(browser: Browser, tmp_path: Path) -> None:
    box = LiveBox(tmp_path / "box")
    try:
        box.up("--gpu_driver=simulated", "--simulated_gpus=1", asks=True)
        found = Records(box.work_dir).read()
        assert found is not None
        password = (box.work_dir / "access" / "secret").read_text().strip()
        reader = Reader.of(browser, found.marathon.url)
        page = reader.page
        page.goto(found.master.url)
        for attempt in ("wrong", password):
            expect(page.get_by_role("heading", name="Log in to Marathon")).to_be_visible()
            assert reader.violations() == []
            page.get_by_label("Name", exact=True).fill("box")
            page.get_by_label("Password", exact=True).fill(attempt)
            reader.button("Log in").click()
        expect(page.get_by_role("heading", name="Machines")).to_be_visible()
        expect(page.locator("tbody .state-running")).to_have_count(1)
        kept = page.evaluate(
            "[JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie, location.href]"
        )
        assert kept == ["{}", "{}", "", f"{found.marathon.url}/ui/#/machines"]
        page.reload()
        expect(page.get_by_role("heading", name="Log in to Marathon")).to_be_visible()
        reader.close()
    finally:
        box.cli("down")


expect.set_options(timeout=PATIENCE_MS)

USER = {"cmd": never_ends(), "cpus": 0.1, "mem": 64}


@pytest.fixture
def refused(tmp_path: Path) -> Iterator[LiveBox]:
    """A box in which /patient has most of a shared card, could not be suspended for /urgent, and has it still."""
    with live_box(tmp_path / "box", "--gpu_driver=simulated", "--simulated_gpus=1", "--shared_gpus=0") as box:
        box.add({"id": "patient", "preemptible": True, "gpuShare": {"memGiB": 10}, **USER})
        box.until("it computes", lambda: "devices 1" in box.log_of("patient"))
        urgent = {"id": "urgent", "gpuShare": {"memGiB": 12, "highPriority": True}, **USER}
        box.ok("app", "add", "-", text=json.dumps(urgent))
        box.until("it is refused", lambda: "suspensionRefused" in box.tasks("patient")[0])
        yield box


@pytest.mark.parametrize(("locale", "catalogue"), [("en-US", EN), ("zh-CN", ZH)], ids=["en", "zh"])
def test_it_says_who_could_not_be_suspended_for_whom_and_why(
    browser: Browser, refused: LiveBox, locale: str, catalogue: dict[str, str]
) -> None:
    reader = Reader.of(browser, refused.status()["marathon"]["url"], locale=locale)
    (task,) = refused.tasks("patient")
    reason = str(task["suspensionRefused"]["reason"])
    could_not = text("suspension.notSuspended", catalogue, taker="/urgent", reason=reason)
    for place in ("#/services/patient", f"#/instances/{task['id']}", f"#/machines/{task['slaveId']}"):
        page = reader.go(place)
        expect(page.locator(".reason", has_text=could_not)).to_be_visible()
        assert reader.violations() == [], place
    page = reader.go("#/services/urgent?tab=why")
    expect(page.locator(".headline")).to_contain_text(reason)
    reader.close()


def test_the_keys_g_h_lead_to_what_apps_had(site: LiveBox, reader: Reader, tmp_path: Path) -> None:
    app = {"id": "/used/gpus", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1}
    free = site.gpus_free()
    site.ok("app", "add", "-", "--wait", text=json.dumps(app))
    try:
        page = reader.go("#/overview")
        page.keyboard.press("g")
        page.keyboard.press("h")
        expect(page.get_by_role("heading", name="Usage")).to_be_visible()
        row = page.get_by_role("row", name="/used/gpus")
        expect(row).to_be_visible()
        expect(row.get_by_role("link", name="/used/gpus")).to_have_attribute("href", "#/services/used/gpus")
        expect(row).to_contain_text("32 MiB")
        # The same figures as Marathon has for the command line.
        (told,) = [each for each in site.marathon("/v1/usage")["usage"] if each["app"] == "/used/gpus"]
        assert told["gpuHours"] >= 0
        page.get_by_role("link", name="User").click()
        expect(page.get_by_role("columnheader", name="User")).to_be_visible()
        expect(page.get_by_role("row", name=str(told["user"]))).to_be_visible()
        page.get_by_role("link", name="Four weeks").click()
        expect(page.get_by_role("link", name="Four weeks")).to_have_attribute("aria-current", "page")
        picture = page.screenshot(path=tmp_path / "usage.png", full_page=True)
        assert len(picture) > 5000
        assert reader.violations() == []
    finally:
        site.ok("app", "remove", "/used/gpus", "--force")
        site.until("its GPU is free", lambda: site.gpus_free() == free)
