"""A browser at the page: Debian's chromium, driven by playwright, which brings none of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / "tests" / "support" / "ui"
AXE = "node_modules/axe-core/axe.min.js"
PATIENCE_MS = 60_000


def chromium() -> str:
    """Return the browser's path. Fails the test when there is none: `./run test` installs it."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.fail("there is no chromium; ./run test installs it, or as root: apt-get install chromium")
    return found


@contextmanager
def running() -> Iterator[Browser]:
    """Start a browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


def web_tool(path: str) -> Path:
    """Return a file of what `./run` has installed with npm. Fails the test when it is not there."""
    for venv in (".venv", ".venv-lowest", *(found.name for found in ROOT.glob(".venv-*"))):
        found = ROOT / venv / "web" / path
        if found.exists():
            return found
    pytest.fail(f"{path} is not there; ./run test and ./run check install it with npm")


@dataclass
class Reader:
    """Somebody who looks at the page of one Marathon. What the page complains about is kept, and must be nothing."""

    url: str
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, browser: Browser, url: str, **wishes: Any) -> Reader:
        context = browser.new_context(**{"locale": "en-US", "viewport": {"width": 1280, "height": 800}, **wishes})
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        made = cls(url, context, page)
        page.on("pageerror", lambda error: made.complaints.append(f"error: {error}"))
        page.on("console", made._console)
        return made

    def _console(self, message: Any) -> None:
        # What cannot be reached is told by the browser as well as by the page.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def go(self, place: str = "#/services") -> Page:
        """Open a place of the page; within it no file is loaded again."""
        self.page.goto(f"{self.url}/ui/{place}")
        self.page.locator("main h1, main .empty, main form").first.wait_for()
        return self.page

    def button(self, name: str, *, within: Locator | None = None) -> Locator:
        return (within or self.page).get_by_role("button", name=name, exact=True)

    def confirm(self, label: str, *says: str) -> None:
        """Press the button of the dialog that is open, once it says what will happen, these lines among it.

        Like every dialog it must shut nobody out.
        """
        dialog = self.page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        # The page draws what was typed last when it comes to it.
        for line in says:
            expect(dialog.locator(".will li").get_by_text(line, exact=True)).to_be_visible()
        assert self.violations() == [], label
        dialog.get_by_role("button", name=label, exact=True).click()
        dialog.wait_for(state="detached")

    def violations(self) -> list[str]:
        """Return what axe-core finds against WCAG 2.2 A and AA in what is shown now."""
        if not self.page.evaluate("typeof window.axe === 'object'"):
            # As a script of the page it would be refused by the page's policy.
            self.page.evaluate(web_tool(AXE).read_text())
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
        found = self.page.evaluate("tags => axe.run(document, {runOnly: tags})", tags)
        return [
            f"{one['id']}: {one['help']} at {', '.join(node['html'][:160] for node in one['nodes'][:3])}"
            for one in found["violations"]
        ]

    def close(self) -> None:
        self.context.close()
        assert self.complaints == []


NewReader = Callable[..., Reader]
"""Makes a reader, with wishes of playwright about the browser."""
