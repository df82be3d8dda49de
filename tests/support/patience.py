"""How much longer than usual tests wait for what must happen: on a processor that is played, several times as long."""

from __future__ import annotations

import os

TIMES = float(os.environ.get("TESTS_PATIENCE", "1"))
"""`./run test pure-v2` sets it where there is no KVM."""
