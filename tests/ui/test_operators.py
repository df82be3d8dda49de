"""What operators do with pods, jobs, machines, roles and GPUs, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.box.live import LiveBox
from tests.support.ui.browser import PATIENCE_MS, Reader
from tests.ui.catalogue import text

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]
expect.set_options(timeout=PATIENCE_MS)

CONTAINER = {
    "name": "main",
    "exec": {"command": {"shell": "echo here is main; exec sleep 1000"}},
    "resources": {"cpus": 0.1, "mem": 32, "gpus": 1},
}
POD = {"id": "/operators/pod", "scaling": {"kind": "fixed", "instances": 1}, "containers": [CONTAINER]}
JOB = {"id": "operators", "run": {"cmd": "echo here is a run", "cpus": 0.1, "mem": 32, "disk": 0}}


@pytest.fixture(autouse=True)
def nothing_of_it_stays(site: LiveBox) -> Iterator[None]:
    """Takes away what a walk that stopped half way has left, so that the next one finds its GPUs."""
    yield
    for pod in site.marathon("/v2/pods"):
        site.ok("pod", "remove", pod["id"], "--force")
    for job in site.marathon("/v1/jobs"):
        site.ok("job", "remove", job["id"], "--stop-runs")
    site.until("all GPUs are free", lambda: site.gpus_free() == 4)


def write(page: Page, document: dict[str, Any]) -> None:
    page.get_by_label("JSON", exact=True).fill(json.dumps(document))


def test_a_pod_from_its_json_to_its_end(site: LiveBox, reader: Reader) -> None:
    page = reader.go("#/create?kind=pod")
    write(page, POD)
    reader.button("Review").click()
    reader.confirm("Create", text("plan.starts", count=1), text("plan.gpus", count=1))
    row = page.get_by_role("row", name="main")
    expect(row.locator(".state-running")).to_be_visible()

    page.get_by_role("link", name="Logs", exact=True).first.click()
    expect(page.locator("pre.log")).to_contain_text("here is main")
    page.get_by_role("link", name="Instances", exact=True).click()
    row.get_by_role("link", name="main").click()
    page.get_by_role("link", name="Terminal", exact=True).click()
    reader.button("Open a terminal").click()
    screen = page.locator(".xterm-rows")
    expect(screen).to_contain_text("#")
    page.keyboard.type("nvidia-smi -L | wc -l; exit 4\n")
    expect(page.get_by_role("status").last).to_have_text(text("terminal.ended", status=4))

    page.get_by_role("link", name="/operators/pod").click()
    reader.button("Scale").click()
    page.get_by_role("dialog").get_by_label("Instances").fill("2")
    reader.confirm("Scale", text("plan.more", count=1))
    expect(page.locator("tbody .state-running")).to_have_count(2)

    def tasks() -> set[str]:
        instances = site.marathon("/v2/pods/operators/pod::status")["instances"]
        return {one["containerId"] for instance in instances for one in instance["containers"]}

    before = tasks()
    page.locator("tbody").get_by_role("button", name="Kill").first.click()
    reader.confirm("Kill", text("kill.replaces"))
    site.until("another runs in its place", lambda: len(tasks() - before) == 1)
    reader.button("Remove").click()
    reader.confirm("Remove")
    expect(page.get_by_role("heading", name="Services")).to_be_visible()
    expect(page.get_by_role("link", name="/operators/pod")).to_have_count(0)


def test_a_job_is_advised_made_run_and_removed(site: LiveBox, reader: Reader) -> None:
    page = reader.go("#/create?kind=job")
    write(page, {**JOB, "run": {**JOB["run"], "gpus": 0.5}})  # type: ignore[dict-item]
    reader.button("Review").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".advice")).to_contain_text("`gpus` must be a whole number")
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("`gpus` must be a whole number")
    page.keyboard.press("Escape")
    expect(page.get_by_role("alert")).to_contain_text("`gpus` must be a whole number")
    write(page, JOB)
    reader.button("Review").click()
    reader.confirm("Create", text("plan.jobUntimed"))
    expect(page.get_by_text(text("runs.none"))).to_be_visible()

    reader.button("Run now").click()
    reader.confirm("Run now", text("plan.starts", count=1))
    row = page.locator("tbody tr").first
    expect(row).to_contain_text("Finished")
    row.get_by_role("link").first.click()
    expect(page.locator("pre.log")).to_contain_text("here is a run")

    page.get_by_role("link", name="operators", exact=True).click()
    page.get_by_role("link", name="Edit", exact=True).click()
    nightly = {"id": "nightly", "cron": "0 3 * * *", "timezone": "UTC"}
    write(page, {**JOB, "schedules": [nightly]})
    reader.button("Review").click()
    reader.confirm("Change", text("plan.jobTimed", count=1))
    expect(page.get_by_text("0 3 * * *")).to_be_visible()
    expect(page.get_by_text(text("run.next", time=""))).to_be_visible()
    reader.button("Remove").click()
    reader.confirm("Remove", text("remove.forgetsJob"))
    site.until("it is gone", lambda: site.marathon("/v1/jobs") == [])


def test_maintenance_is_planned_shown_and_cancelled(site: LiveBox, reader: Reader) -> None:
    page = reader.go("#/machines")
    page.locator("tbody a").first.click()
    reader.button("Plan maintenance").click()
    page.get_by_role("dialog").get_by_label("Hours").fill("3")
    reader.confirm("Plan it", text("maintenance.same", count=1))
    expect(page.get_by_role("heading", name="Maintenance")).to_be_visible()
    page.get_by_role("link", name="Machines", exact=True).first.click()
    row = page.get_by_role("row").filter(has=page.get_by_role("button", name="Cancel maintenance"))
    expect(row).to_contain_text("Planned")
    row.get_by_role("button", name="Take it down").click()  # and not confirmed: its agents would end
    expect(page.get_by_role("dialog")).to_contain_text(text("maintenance.downWill"))
    assert reader.violations() == []
    page.keyboard.press("Escape")
    row.get_by_role("button", name="Cancel maintenance").click()
    reader.confirm("Cancel maintenance", text("maintenance.cancelWill"))
    expect(row).to_have_count(0)


def test_a_machine_is_drained_and_takes_tasks_again(site: LiveBox, reader: Reader) -> None:
    page = reader.go("#/machines")
    page.locator("tbody a").first.click()
    reader.button("Drain").click()
    reader.confirm("Drain", text("plan.drainAfter"))
    reader.button("Take tasks again").click()
    reader.confirm("Take tasks again", text("reactivate.will"))
    expect(reader.button("Drain")).to_be_visible()


def test_a_quota_is_set_and_taken_away(site: LiveBox, reader: Reader) -> None:
    page = reader.go("#/roles")
    reader.button("Quota of a role").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Role").fill("operators")
    dialog.get_by_role("group", name="Limit").get_by_label("GPUs").fill("2")
    dialog.get_by_role("group", name="Guarantee").get_by_label("GPUs").fill("3")
    dialog.get_by_role("button", name="Set quota").click()
    expect(dialog.get_by_role("alert")).to_contain_text(text("quota.wrong", names="gpus"))
    dialog.get_by_role("group", name="Guarantee").get_by_label("GPUs").fill("1")
    reader.confirm("Set quota", text("quota.limits", amounts="gpus 2"), text("quota.guarantees", amounts="gpus 1"))
    row = page.get_by_role("row", name="operators")
    expect(row).to_contain_text("0 / 2")
    expect(row).to_contain_text("gpus 1")
    row.get_by_role("button", name="Quota of operators").click()
    dialog.get_by_role("group", name="Limit").get_by_label("GPUs").fill("")
    dialog.get_by_role("group", name="Guarantee").get_by_label("GPUs").fill("")
    reader.confirm("Set quota", text("quota.noLimits"))
    expect(page.get_by_role("row", name="operators").filter(has_text="0 / 2")).to_have_count(0)


CARD = {"uuid": "GPU-a", "index": 0, "minor": 0, "name": "A100", "memory_total_mib": 40960, "memory_used_mib": 900}
GPUS = [
    {
        **CARD,
        "condition": "unhealthy",
        "reason": "fell off the bus",
        "xid": 79,
        "processes": [
            {"pid": 7, "name": "python", "memory_mib": 800, "task_id": "web.1"},
            {"pid": 8, "name": "<img src=x>", "memory_mib": 100},
        ],
        "history": [
            {"condition": "draining", "reason": "contained memory error", "at": 1.7e9, "xid": 94},
            {"condition": "unhealthy", "reason": "fell off the bus", "at": 1.7e9, "xid": 79},
        ],
    },
    {**CARD, "uuid": "MIG-b", "index": 1, "condition": "healthy"},
]
DRIVER = {
    "gpus": [
        {"uuid": "GPU-a", "mig": None, "links": {"MIG-b": {"nvlinks": 12, "level": 50}}},
        {
            "uuid": "MIG-b",
            "mig": {"parent_uuid": "GPU-c", "gpu_instance": 3, "compute_instance": 0},
            "links": {"GPU-a": {"nvlinks": 0, "level": 30}},
        },
    ]
}
SHARED = [
    {
        "index": 2,
        "uuid": "GPU-s",
        "memory_mib": 16384,
        "mem_units": 16,
        "policy": 2,
        "max_inst": 4,
        "memory_level": "watcher",
        "containers": [
            {
                "container_id": "c",
                "task_id": "web.2",
                "weight": 1,
                "mem_units": 4,
                "memory_mib": 4096,
                "memory_used_mib": 5,
            }
        ],
    }
]


def test_a_gpu_tells_who_uses_it_what_happened_who_shares_and_how_it_is_connected(reader: Reader) -> None:
    def answer(route: Route) -> None:
        path = route.request.url.rpartition("/agents/")[2].partition("/")[2]
        route.fulfill(json={"gpus": GPUS, "gpus/driver": DRIVER, "gpu_shares": SHARED}[path])

    reader.page.route("**/ui/api/agents/*/gpu*", answer)
    reader.page.route("**/ui/api/agents/*/gpus/driver", answer)
    page = reader.go("#/gpus")
    machine = page.locator(".machine").first
    card = machine.locator(".gpu").first
    card.get_by_text("2 processes").click()
    expect(card.get_by_role("link", name="web.1")).to_be_visible()
    expect(card.get_by_text("<img src=x>")).to_be_visible()
    expect(card.get_by_text("of no task")).to_be_visible()
    card.get_by_text(text("gpu.history", count=2)).click()
    expect(card.locator(".timeline li").first).to_contain_text("fell off the bus (XID 79)")
    expect(card.locator(".timeline li").last).to_contain_text(text("condition.draining"))
    expect(machine.locator(".gpu").nth(1)).to_contain_text("MIG instance 3, compute instance 0, of GPU-c")
    expect(machine.locator(".shared")).to_contain_text(text("shared.units", given=4, all=16))
    expect(machine.locator(".shared")).to_contain_text("policy weighted, at most 4 containers")
    expect(machine.locator(".shared")).to_contain_text("memory kept by watcher")
    expect(machine.locator(".shared").get_by_role("row").last).to_contain_text("watcher")
    expect(machine.locator(".shared").get_by_role("link", name="web.2")).to_be_visible()
    machine.get_by_text("How the GPUs are connected").first.focus()
    page.keyboard.press("Enter")
    topology = machine.get_by_role("table", name="How the GPUs are connected")
    expect(topology.get_by_role("row").nth(1)).to_contain_text("NV12")
    expect(topology.get_by_role("row").nth(2)).to_contain_text("PHB")
    assert reader.violations() == []
