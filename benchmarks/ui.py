"""The page with 1 000 apps and 5 000 tasks: how soon it shows something, how fast it answers, what an hour costs.

    ./run bench ui [--apps 1000] [--rounds 5]

A Marathon that is nothing but its answers serves them, so that what is measured is the page and the browser. Times are
of headless Chromium: from the start of the navigation to the first row of the list, and from a key or a click to the
first frame that shows what follows. Events of an hour at 5 a second come in a minute or so; the heap is measured after
a collection, before and after.
"""

from __future__ import annotations

import argparse
import statistics
import sys

from playwright.sync_api import Page

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
    return 0


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


def report(name: str, value: float, limit: float) -> None:
    print(f"{name:<42} {value:8.1f}   wanted below {limit:g}{'' if value < limit else '   MISSED'}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
