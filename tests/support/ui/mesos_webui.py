"""Mesos' own web UI, to measure it beside ours: files of apache/mesos src/webui, and a master's answers for them."""

from __future__ import annotations

import json
import mimetypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.ui.large import AGENTS, TASKS_EACH


def state_of(apps: int) -> dict[str, Any]:
    """Return a master's /state with as many tasks as the apps of a `LargeMarathon` have."""
    status = {"state": "TASK_RUNNING", "timestamp": 1.7e9, "healthy": True}
    resources = {"cpus": 0.5, "mem": 512.0, "disk": 0.0, "gpus": 1.0}
    tasks = [
        {
            "id": f"service-{number // TASKS_EACH}.{number}",
            "name": f"service-{number // TASKS_EACH}",
            "framework_id": "F0",
            "executor_id": "",
            "slave_id": f"S{number % AGENTS}",
            "state": "TASK_RUNNING",
            "role": "*",
            "resources": resources,
            "statuses": [status],
        }
        for number in range(apps * TASKS_EACH)
    ]
    slaves = [
        {
            "id": f"S{number}",
            "hostname": f"machine-{number}",
            "pid": f"slave(1)@10.0.0.{number}:5051",
            "active": True,
            "registered_time": 1.7e9,
            "resources": {"cpus": 64.0, "mem": 262144.0, "disk": 1e6, "gpus": 8.0},
            "used_resources": {"cpus": 50.0, "mem": 100000.0, "disk": 0.0, "gpus": 7.0},
            "offered_resources": {"cpus": 0.0, "mem": 0.0, "disk": 0.0, "gpus": 0.0},
        }
        for number in range(AGENTS)
    ]
    framework = {"id": "F0", "name": "marathon", "active": True, "connected": True, "hostname": "m", "roles": ["*"]}
    framework |= {"tasks": tasks, "completed_tasks": [], "unreachable_tasks": [], "offers": [], "executors": []}
    framework |= {"registered_time": 1.7e9, "resources": resources, "used_resources": resources, "role": "*"}
    counts = {"activated_slaves": AGENTS, "deactivated_slaves": 0, "unreachable_slaves": 0}
    shown = {
        "version": "1.12.0",
        "build_time": 1.7e9,
        "start_time": 1.7e9,
        "elected_time": 1.7e9,
        "id": "M",
        "flags": {},
    }
    return {**shown, **counts, "slaves": slaves, "frameworks": [framework], "completed_frameworks": []}


@contextmanager
def serving(folder: Path, apps: int) -> Iterator[str]:
    """Serve the UI that lies in `folder`; yield its URL."""
    state = json.dumps(state_of(apps))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            callback = parse_qs(asked.query).get("jsonp", [""])[0]
            file = folder / (asked.path.lstrip("/") or "index.html")
            if callback:
                body = f"{callback}({state if asked.path.endswith('/state') else '{}'});".encode()
                kind = "text/javascript"
            elif file.is_file() and file.resolve().is_relative_to(folder.resolve()):
                body, kind = file.read_bytes(), mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
