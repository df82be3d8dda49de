"""The page with 1 000 apps and 5 000 tasks: how soon it shows something, how fast it answers, what an hour costs.

    ./run bench ui [--apps 1000] [--rounds 5] [--mesos-webui mesos/src/webui]

A Marathon that is nothing but its answers serves them, so that what is measured is the page and the browser. Times are
of headless Chromium: from the start of the navigation to the first row of the list, and from a key or a click to the
first frame that shows what follows. Events of an hour at 5 a second come in a minute or so; the heap is measured after
a collection, before and after. With the folder src/webui of a clone of apache/mesos the same is measured of Mesos' own
page, with as many tasks: releases on PyPI are the library alone, without that folder.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page

from benchmarks.kept import figure
from tests.support.ui import mesos_webui
from tests.support.ui.browser import Reader, running
from tests.support.ui.large import LargeMarathon, status_event

EVENTS_AN_HOUR = 18_000
AT_ONCE = 100
APPS_AT_ONCE = 10
FIRST_ROW = "performance.getEntriesByName('row')[0]?.startTime ?? 0"
MARK = """
new MutationObserver((_, observer) => {
  if (!document.querySelector('tbody tr')) return;
  requestAnimationFrame(() => performance.mark('row'));
  observer.disconnect();
}).observe(document, {childList: true, subtree: true})
"""
FRAME = """
act => new Promise(done => {
  const begun = performance.now();
  const where = document.querySelector(act.where);
  if (act.type !== undefined) {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(where, act.type);
    where.dispatchEvent(new Event('input', {bubbles: true}));
  } else where.click();
  const look = () => act.until && !document.body.innerText.includes(act.until)
    ? requestAnimationFrame(look) : requestAnimationFrame(() => done(performance.now() - begun));
  requestAnimationFrame(look);
})
"""


def main() -> int:
    """Measure, and print each figure beside what it is to be."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--apps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mesos-webui", type=Path, help="the folder src/webui of apache/mesos")
    wishes = parser.parse_args()
    with LargeMarathon(wishes.apps).serving() as marathon, running() as browser:
        paints = []
        for _ in range(wishes.rounds):
            reader = Reader.of(browser, marathon.url)
            reader.page.add_init_script(MARK)
            reader.go("#/services").locator("tbody tr").first.wait_for()
            paints.append(reader.page.evaluate(FIRST_ROW))
            reader.close()
        report("first rows, ms", statistics.median(paints), 1000)
        reader = Reader.of(browser, marathon.url)
        page = reader.go("#/services")
        page.locator("tbody tr").first.wait_for()
        for name, times in acted(page, wishes.apps, wishes.rounds).items():
            report(f"{name}, ms", statistics.median(times), 100)
        before = heap(page)
        for begun in range(0, EVENTS_AN_HOUR, AT_ONCE):
            numbers = range(begun, begun + AT_ONCE)
            marathon.publish(
                [status_event((begun + n % APPS_AT_ONCE) % wishes.apps, n % 5, "TASK_RUNNING") for n in numbers]
            )
            page.wait_for_timeout(100)
        report(f"heap after {EVENTS_AN_HOUR} events, MB more", (heap(page) - before) / 1e6, 10)
        reader.close()
        if wishes.mesos_webui is not None:
            beside(browser, wishes.mesos_webui, wishes.apps, wishes.rounds)
    return 0


def beside(browser: Browser, folder: Path, apps: int, rounds: int) -> None:
    """Measure Mesos' own page: the first task of its home, a filter there, and the way to the agents and back."""
    acts = {
        "filter by name": {
            "where": "input[type=search]",
            "type": f"service-{apps - 1}",
            "until": f"service-{apps - 1}.",
        },
        "open the agents": {"where": "a[href='#/agents']", "until": "machine-7"},
        "back to the tasks": {"where": ".navbar-brand", "until": "service-"},
    }
    paints: list[float] = []
    found: dict[str, list[float]] = {name: [] for name in acts}
    with mesos_webui.serving(folder, apps) as url:
        for _ in range(rounds):
            page = browser.new_page()
            page.add_init_script(MARK.replace("'tbody tr'", "'tr[ng-repeat*=task]'"))
            page.goto(url)
            page.locator("tr[ng-repeat*=task]").first.wait_for(timeout=60_000)
            page.wait_for_function(f"() => {FIRST_ROW} > 0")
            paints.append(page.evaluate(FIRST_ROW))
            for name, act in acts.items():
                found[name].append(page.evaluate(FRAME, act))
            page.close()
    report("Mesos' page: first rows, ms", statistics.median(paints), None)
    for name, times in found.items():
        report(f"Mesos' page: {name}, ms", statistics.median(times), None)


def acted(page: Page, apps: int, rounds: int) -> dict[str, list[float]]:
    """Do what people do, `rounds` times, and return how long each took to be seen."""
    search = "input[type=search]"
    acts = {
        "filter by name": {"where": search, "type": f"/service-{apps - 1}", "until": f"1 of {apps}"},
        "filter taken back": {"where": search, "type": "", "until": f"{apps} of {apps}"},
        "sort": {"where": "thead th:nth-child(4) button"},
        "open a service": {"where": "tbody a", "until": "Endpoints"},
        "back to the list": {"where": ".menu a[href='#/services']", "until": "Reason"},
    }
    found: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(rounds):
        for name, act in acts.items():
            found[name].append(page.evaluate(FRAME, act))
    return found


def heap(page: Page) -> float:
    """Return the bytes that are in use after a collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return float(metrics["JSHeapUsedSize"])


def report(name: str, value: float, limit: float | None) -> None:
    wanted = "" if limit is None else f"   wanted below {limit:g}{'' if value < limit else '   MISSED'}"
    print(f"{name:<42} {value:8.1f}{wanted}", flush=True)
    what, _, unit = name.rpartition(", ")
    figure(what, what, value, unit, aim=limit)


if __name__ == "__main__":
    sys.exit(main())
