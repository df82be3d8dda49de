"""The command line of nvidia-docker: which command it is, and where the image stands. Pure.

Source: NVIDIA/nvidia-docker 1.0.1, `src/docker/docker.go`, `src/nvidia-docker/main.go`; without its two slips: a short
option that has its value with it (`-p8080:80`) takes no other word, and the status of a remote answer is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesos_gpu.errors import BadInput

VERSION = re.compile(r"\d+\.\d+\.\d+")
_GLOBAL = {"debug", "D", "help", "tls", "tlsverify", "version", "v"}
_BOTH = {
    *("disable-content-trust", "help", "interactive", "i", "oom-kill-disable", "privileged", "publish-all", "P"),
    *("read-only", "tty", "t"),
}
_RUN = {"detach", "d", "rm", "sig-proxy"}
_SINCE = (((1, 12), "run", "no-healthcheck"), ((1, 13), "both", "init"))
"""Flags that came later, and with which version."""
WITH_IMAGE = ("create", "run")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of docker. `image` is the place of the image's name in the words, None where there is none."""

    words: tuple[str, ...]
    command: str = ""
    image: int | None = None

    def with_arguments(self, arguments: Sequence[str]) -> list[str]:
        """Return the words with these just before the image."""
        if self.image is None:
            return list(self.words)
        return [*self.words[: self.image], *arguments, *self.words[self.image :]]


def read_call(words: Sequence[str], version: str) -> Call:
    """Return what a command line is. `version` is that of the docker client. Raises BadInput."""
    if not VERSION.match(version):
        raise BadInput(f"docker says that it is version {version!r}, which is not a version")
    at = _first_plain(words, 0, _GLOBAL)
    if at < len(words) and words[at] == "container":
        at = _first_plain(words, at + 1, _GLOBAL)
        if at >= len(words):
            raise BadInput("docker container: which command?")
    if at >= len(words):
        return Call(tuple(words))
    command = words[at]
    if command not in WITH_IMAGE:
        return Call(tuple(words), command)
    image = _first_plain(words, at + 1, _flags(command, version))
    return Call(tuple(words), command, image if image < len(words) else None)


def _flags(command: str, version: str) -> set[str]:
    numbers = tuple(int(part) for part in version.split(".")[:2])
    found = {*_BOTH, *(_RUN if command == "run" else ())}
    return found | {flag for since, which, flag in _SINCE if numbers >= since and which in ("both", command)}


def _first_plain(words: Sequence[str], at: int, flags: set[str]) -> int:
    """Return where the first word stands that is neither an option nor an option's value."""
    while at < len(words):
        word = words[at]
        if word == "--":
            return at + 1
        if word == "-" or not word.startswith("-"):
            return at
        at += 2 if _eats(word, flags) else 1
    return at


def _eats(word: str, flags: set[str]) -> bool:
    """Return whether an option's value is the next word."""
    if "=" in word:
        return False
    if word.startswith("--"):
        return word[2:] not in flags
    # Of -it each letter is a flag; the first that is none has what follows it for its value, or the next word.
    for place, letter in enumerate(word[1:], start=1):
        if letter not in flags:
            return place == len(word) - 1
    return False


def gpu_names(text: str) -> list[str]:
    """Return the GPUs that NV_GPU names, none for all: indices or UUIDs with blanks or commas between them."""
    return list(dict.fromkeys(name for name in re.split(r"[\s,]+", text) if name))


def cuda_problem(label: str, driver: Mapping[str, object]) -> str | None:
    """Return why an image that was built for the CUDA of its label does not run with this driver; None when it does."""
    here, wanted = _two(str(driver.get("cuda_version") or "")), _two(label)
    if wanted is None or (here is not None and here >= wanted):
        return None
    return f"unsupported CUDA version: driver {driver.get('cuda_version') or 'unknown'} < image {label}"


def _two(text: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", text)
    return None if match is None else (int(match[1]), int(match[2]))
