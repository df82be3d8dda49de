"""Filters of system calls that a runtime has compiled once, and need not compile again for every container.

Compiling Docker's list takes crun more than all else it does for a container: 13 of 22 ms of processor time. It takes
the compiled filter as an annotation in the place of `linux.seccomp` (crun(1), run.oci.seccomp_bpf_data; since 0.17),
and keeps what it compiled beside a container's state. What is learnt is kept in this process alone, by the very words
that were compiled: another list, and another crun after a restart, are compiled anew.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec

from mesos_gpu.container.host.runtime import Runtime

ANNOTATION = "run.oci.seccomp_bpf_data"
INSTRUCTION_BYTES, MAX_INSTRUCTIONS = 8, 4096
"""struct sock_filter, and BPF_MAXINSNS, of linux/filter.h and linux/bpf_common.h."""
REMEMBERED = 32
"""How many lists are kept; tasks may name profiles of their own."""


class Filters:
    """The compiled filters that are known."""

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}
        self._encoder = msgspec.json.Encoder(order="deterministic")

    def shorten(self, document: dict[str, Any], runtime: Runtime) -> bytes | None:
        """Give a bundle's document its compiled filter if that is known, beside the list, which stays as it is.

        Returns what `learn` is to be told when the container has been started, None when there is nothing to learn.
        """
        listed = document["linux"].get("seccomp")
        if listed is None or not runtime.takes_compiled_filters:
            return None
        key = self._encoder.encode(listed)
        compiled = self._known.get(key)
        if compiled is None:
            return key
        document["annotations"] = {**document.get("annotations", {}), ANNOTATION: compiled}
        return None

    def learn(self, key: bytes, file: Path) -> None:
        """Take note of what a runtime compiled for a container that runs; what is not understood is not taken."""
        try:
            compiled = file.read_bytes()
        except OSError:
            return
        if not compiled or len(compiled) % INSTRUCTION_BYTES or len(compiled) > MAX_INSTRUCTIONS * INSTRUCTION_BYTES:
            return
        while len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = base64.b64encode(compiled).decode()
