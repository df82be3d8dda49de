"""Which commands are for the resident helper, and when one is worth starting. Pure; imports nothing: all wait for it.

For the helper are commands that look, or ask a server for a change, and end: they neither read from a terminal nor ask
somebody there, last, start what stays, or look at this machine. All others are carried out directly, as is what cannot
be told at a glance.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SWITCH = "MESOS_GPU_RESIDENT"
OFF = ("0", "no", "off", "false")
COMPLETING = "_MESOS_GPU_COMPLETE"
"""The variable with which a shell asks what a word may become."""
AGAIN_WITHIN_S = 300.0
"""Who called twice within this time calls again."""
_LISTS = ("app", "pod", "job", "group", "deployment", "task", "gpu", "agent", "share", "queue", "plugin", "service")
_SHOWS = ("app", "pod", "job", "group", "task", "leader", "config")
_CHANGES = ("add", "scale", "start", "stop", "restart", "kill")
QUICK = frozenset(
    [
        *("run", "about", "ping", "why", "when", "help", "ps", "logs", "images", "info", "cluster-info"),
        *(f"{noun} list" for noun in (*_LISTS, "quota", "image", "config")),
        *(f"{noun} show" for noun in _SHOWS),
        *(f"app {verb}" for verb in (*_CHANGES, "versions", "validate")),
        *(f"{noun} {verb}" for noun in ("pod", "job") for verb in ("add", "kill")),
        *("job run", "job history", "task log", "task ls", "task kill", "task metrics", "agent describe"),
        *("gpu types", "gpu fragments", "queue summary", "queue details", "config keys"),
        *(f"get {kind}" for kind in ("nodes", "pods", "deployments", "jobs", "images", "gpus", "quotas")),
    ]
)
"""The first words of such commands."""
_LASTING = ("--watch", "--follow", "--wait", "--interactive", "--stdin", "--tty", "--stdin-tty")
_ASKS = "--auth"
"""Its password is typed, unseen, at the terminal itself."""
_OURS_ALONE = ("/dev/", "/proc/")
"""Files there are another process' own, such as what a shell makes of <(command)."""
_HARMLESS = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
"""What is said to Python that makes no difference to a command, or is made up for (child.py)."""
_KEPT = ("HOME", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "XDG_CONFIG_HOME", "MESOS_GPU_CONFIG_DIR")
LOADER = ("LD_", "GLIBC_TUNABLES", "MALLOC_", "OPENSSL_", "SSLKEYLOGFILE")
"""What the loader and libraries have read before a child of the helper begins."""


def is_kept(name: str) -> bool:
    """Whether the helper itself is given a variable; its children have those of their commands."""
    return name in _KEPT or name.startswith(LOADER)


def is_off(environ: Mapping[str, str]) -> bool:
    """Whether the environment says that there is to be no helper."""
    return environ.get(SWITCH, "").lower() in OFF


def is_for_helper(words: Sequence[str], environ: Mapping[str, str], *, typed: bool) -> bool:
    """Whether the helper may carry a command out; `typed`: its standard input is a terminal.

    An environment that changes how Python works, or that asks for another character set than UTF-8, is the command's
    alone.
    """
    if is_off(environ) or any(name.startswith("PYTHON") and name not in _HARMLESS for name in environ):
        return False
    locale = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "C")
    if locale not in ("C", "POSIX") and not locale.lower().partition("@")[0].endswith((".utf-8", ".utf8")):
        return False
    if COMPLETING in environ:
        return not words
    if tuple(words) in ((), ("--help",), ("-h",), ("--version",)):
        return True
    ours = words[: words.index("--")] if "--" in words else words
    if not ours or (ours[0] not in QUICK and " ".join(ours[:2]) not in QUICK):
        return False
    return not any(_lasts(word) or (typed and word == "-") or any(one in word for one in _OURS_ALONE) for word in ours)


def _lasts(word: str) -> bool:
    """Whether an option may ask for what lasts or for a terminal: -f, -i, -t, -w, perhaps among others as in -it.

    Options may be cut short, as --foll.
    """
    if word.startswith("--"):
        name = word.partition("=")[0]
        return any(known.startswith(name) for known in (*_LASTING, _ASKS))
    return word.startswith("-") and any(letter in word for letter in "fitw")


def worth_starting(now_s: float, before_s: float | None) -> bool:
    """Whether a helper is to be started for the next commands; `before_s`: when the last command came, if one did."""
    return before_s is not None and 0 <= now_s - before_s <= AGAIN_WITHIN_S
