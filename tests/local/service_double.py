"""A service for tests: writes its ready file, or fails with a message; ends on SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

flags = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[1:])
if "fail" in flags:
    sys.exit(f"double: {flags['fail']}")
port = int(flags["port"]) or 40001
signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in flags else lambda *_: sys.exit(0))
ready = Path(flags["ready_file"])
ready.with_suffix(".tmp").write_text(json.dumps({"pid": os.getpid(), "url": f"http://127.0.0.1:{port}"}))
ready.with_suffix(".tmp").rename(ready)
while True:
    signal.pause()
