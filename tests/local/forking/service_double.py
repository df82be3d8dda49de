"""A service for tests: writes its ready file, or fails with a message; ends on SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str]) -> int:
    flags = dict(word.removeprefix("--").partition("=")[::2] for word in argv)
    if "fail" in flags:
        sys.exit(f"double: {flags['fail']}")
    if "status" in flags:
        return int(flags["status"])
    if "raise" in flags:
        raise RuntimeError(flags["raise"])
    port = int(flags["port"]) or 40001
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in flags else lambda *_: sys.exit(0))
    while "never" in flags:
        signal.pause()
    ready = Path(flags["ready_file"])
    ready.with_suffix(".tmp").write_text(json.dumps({"pid": os.getpid(), "url": f"http://127.0.0.1:{port}"}))
    ready.with_suffix(".tmp").rename(ready)
    while True:
        signal.pause()
