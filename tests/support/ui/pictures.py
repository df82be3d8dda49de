"""Makes the pictures of docs/do/ui.md, at a box of simulated GPUs: .venv/bin/python -m tests.support.ui.pictures

As root, since a box runs real containers.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.support.box.live import LiveBox
from tests.support.ui.browser import ROOT, Reader, running

PICTURES = ROOT / "docs" / "pictures"
LOOP = "i=0; while :; do i=$((i+1)); printf 'step %d  \\033[32mloss 0.%03d\\033[0m\\n' $i $((900/i)); sleep 1; done"
APPS = (
    {"id": "/vision/train", "cmd": LOOP, "mem": 64, "cpus": 0.1, "gpus": 2, "labels": {"team": "vision"}},
    {"id": "/vision/serve", "cmd": LOOP, "mem": 64, "cpus": 0.1, "gpus": 1, "instances": 3},
    {"id": "/speech/large", "cmd": LOOP, "mem": 64, "cpus": 0.1, "gpus": 8},
    {"id": "/tools/notebook", "cmd": LOOP, "mem": 64, "cpus": 0.1, "instances": 0},
    {"id": "/tools/import", "cmd": "echo 'no such table: images' >&2; exit 2", "mem": 32, "cpus": 0.1},
)
SHOTS = {
    "ui-services": ("#/services", {}),
    "ui-why": ("#/services/speech/large?tab=why", {}),
    "ui-gpus": ("#/gpus", {"color_scheme": "dark"}),
    "ui-edit": ("#/edit/vision/serve", {}),
    "ui-terminal": ("#/services/vision/train", {}),
    "ui-logs-zh": ("#/services/vision/train?tab=logs", {"locale": "zh-CN"}),
}


def in_terminal(page: Page, box: LiveBox) -> None:
    """Open a terminal in the first instance, and do in it what people do first."""
    page.evaluate(f"location.hash = '#/instances/{box.tasks('vision/train')[0]['id']}?tab=terminal'")
    page.get_by_label("Command").fill("PS1='# ' exec sh")
    page.get_by_role("button", name="Open a terminal").click()
    screen = page.locator(".xterm-rows")
    expect(screen).to_contain_text("#")
    page.keyboard.type("nvidia-smi -L; tail -n 2 stdout; echo 训练中\n")
    expect(screen).to_contain_text("GPU 1:")
    page.locator(".terminal-frame").scroll_into_view_if_needed()


def main() -> int:
    """Bring a box up, fill it, look at it, and end it."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running() as browser:
        box = LiveBox(Path(folder) / "box")
        try:
            box.up("--gpu_driver=simulated", "--simulated_gpus=4", "--agents=2")
            for app in APPS:
                box.ok("app", "add", "-", text=json.dumps(app))
            box.until("they run", lambda: len(box.marathon("/v2/tasks?status=running")["tasks"]) >= 4)
            box.until("one has failed", lambda: "lastTaskFailure" in box.marathon("/v2/apps/tools/import")["app"])
            for name, (place, wishes) in SHOTS.items():
                viewport = {"width": 1200, "height": 700}
                reader = Reader.of(browser, box.status()["marathon"]["url"], viewport=viewport, **wishes)
                page = reader.go(place)
                if name == "ui-terminal":
                    in_terminal(page, box)
                page.wait_for_timeout(3000)  # for a few lines of the log
                page.screenshot(path=PICTURES / f"{name}.png")
                reader.close()
        finally:
            box.cli("down")
    return 0


if __name__ == "__main__":
    sys.exit(main())
