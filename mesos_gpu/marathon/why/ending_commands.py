"""Does a command end by itself? Marathon starts again what ends, so that a smoke test would run forever. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

_ENDING = frozenset(
    {":", "[", "cat", "cd", "date", "deviceQuery", "df", "echo", "env", "exit", "export", "false", "free", "hostname"}
    | {"id", "ldconfig", "ls", "lsmod", "lspci", "mkdir", "nvcc", "nvidia-debugdump", "printenv", "printf", "pwd", "rm"}
    | {"set", "test", "true", "ulimit", "uname", "whoami"}
)
"""Programs that end by themselves, whatever they are asked."""

_LOOPS = frozenset({"while", "until", "for", "exec", "wait", "select", "trap"})
_NVIDIA_LOOPS = re.compile(r"^(-l|-lms|-l\d+|--loop(-ms)?(=.*)?|dmon|pmon|daemon)$")
_LONGEST_SLEEP_S = 600.0
_SEPARATORS = {"&&", "||", ";", "|"}
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def ends_at_once(app: Mapping[str, Any]) -> bool:
    """Return whether an app's command is sure to end within minutes; False where that cannot be seen.

    `nvidia-smi` ends, `nvidia-smi -l 5` and `while true; do nvidia-smi; sleep 5; done` do not.
    """
    cmd, args = app.get("cmd"), app.get("args")
    if isinstance(cmd, str):
        return _line_ends(cmd)
    image = ((app.get("container") or {}).get("docker") or {}).get("image")
    if isinstance(args, list) and args and not image:  # arguments of an image's own program say little
        return _ends([str(word) for word in args])
    return False


def _line_ends(line: str) -> bool:
    lexer = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return False
    commands: list[list[str]] = [[]]
    for word in words:
        if word in _SEPARATORS:
            commands.append([])
        elif word in ("&", "(", ")", "{", "}") or word in _LOOPS:
            return False
        else:
            commands[-1].append(word)
    some = [command for command in commands if command]
    return bool(some) and all(_ends(command) for command in some)


def _ends(words: Sequence[str]) -> bool:
    while words and re.match(r"^[A-Za-z_]\w*=", words[0]):
        words = words[1:]
    if not words:
        return True
    program = words[0].rpartition("/")[2]
    if program in ("sh", "bash") and len(words) == 3 and words[1] == "-c":
        return _line_ends(words[2])
    if program == "nvidia-smi":
        return not any(_NVIDIA_LOOPS.match(word) for word in words[1:])
    if program == "sleep":
        return _slept_s(words[1:]) <= _LONGEST_SLEEP_S
    return program in _ENDING


def _slept_s(words: Sequence[str]) -> float:
    total = 0.0
    for word in words:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", word)
        if found is None:
            return float("inf")
        total += float(found[1]) * _UNITS_S[found[2]]
    return total
