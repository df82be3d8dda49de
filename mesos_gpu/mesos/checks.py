"""Checks and health checks of a task: when the next probe is due, and what its result means. Pure; time is an argument.

A check reports what it finds and never kills; a health check makes a yes or no of it, and may have the task killed.
Whoever runs one holds a `Course` and loops: at `due_s` begin a probe (`asked`), afterwards take its `Result`
(`answered`), which gives the next course and, when there is something to say, the news.
Source: Mesos src/checks/checker_process.cpp, checker.cpp, health_checker.cpp; src/launcher/executor.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.resource import Document

Kind: TypeAlias = Literal["COMMAND", "HTTP", "TCP"]

DELAY_S, INTERVAL_S, TIMEOUT_S, GRACE_PERIOD_S, CONSECUTIVE_FAILURES = 15.0, 10.0, 20.0, 10.0, 3
"""Defaults of mesos.proto."""

_BODIES: Mapping[str, str] = {"COMMAND": "command", "HTTP": "http", "TCP": "tcp"}


@dataclass(frozen=True, slots=True)
class Probe:
    """What one look at the task is: run a command in its container, ask a URL, or connect to a port.

    `command` is a CommandInfo. HTTP and TCP go to the loopback address that `ipv6` says. `timeout_s` None: no limit.
    """

    kind: Kind
    timeout_s: float | None = TIMEOUT_S
    command: Mapping[str, Any] | None = None
    scheme: str = "http"
    port: int = 0
    path: str = ""
    ipv6: bool = False

    @property
    def address(self) -> str:
        """Return the address that is connected to."""
        return "::1" if self.ipv6 else "127.0.0.1"

    @property
    def url(self) -> str:
        """Return what an HTTP probe asks."""
        host = f"[{self.address}]" if self.ipv6 else self.address
        slash = "" if self.path.startswith("/") or not self.path else "/"
        return f"{self.scheme}://{host}:{self.port}{slash}{self.path}"


@dataclass(frozen=True, slots=True)
class Result:
    """What a probe found: the field of its kind, or in `error` why it found nothing (a timeout, a refusal)."""

    exit_code: int | None = None
    status_code: int | None = None
    connected: bool | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class HealthRules:
    """What makes a health check of a check. `statuses` are HTTP codes that are well; empty: 200 to 399."""

    grace_period_s: float = GRACE_PERIOD_S
    consecutive_failures: int = CONSECUTIVE_FAILURES
    statuses: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Plan:
    """A CheckInfo (`health` None) or a HealthCheck, read."""

    probe: Probe
    delay_s: float
    interval_s: float
    health: HealthRules | None = None


@dataclass(frozen=True, slots=True)
class CheckNews:
    """A check found something else than before. `status` is the CheckStatusInfo."""

    status: Document


@dataclass(frozen=True, slots=True)
class HealthNews:
    """A health check has something to say; `kill`: it failed often enough to have the task killed."""

    healthy: bool
    kill: bool = False
    why: str | None = None


News: TypeAlias = CheckNews | HealthNews


@dataclass(frozen=True, slots=True)
class Course:
    """Where one check of one task stands.

    `due_s` is when the next probe begins, None while one is under way. `grace_ends_s`: failures of a health check do
    not count before, unless it succeeded once (`proven`). `failures` are those in a row. `last` is the CheckStatusInfo
    that was reported last.
    """

    plan: Plan
    due_s: float | None
    grace_ends_s: float
    proven: bool = False
    failures: int = 0
    last: Document | None = None


def plans_of(task: Mapping[str, Any]) -> tuple[Plan, ...]:
    """Return the plans of a TaskInfo: its check, then its health check. Raises BadInput for one without a body."""
    found = []
    if task.get("check"):
        found.append(check_plan(task["check"]))
    if task.get("health_check"):
        found.append(health_plan(task["health_check"]))
    return tuple(found)


def check_plan(check: Mapping[str, Any]) -> Plan:
    """Read a CheckInfo. Raises BadInput when its type has no body."""
    command = (check.get("command") or {}).get("command")
    return Plan(_probe(check, command), _seconds(check, "delay", DELAY_S), _seconds(check, "interval", INTERVAL_S))


def health_plan(check: Mapping[str, Any]) -> Plan:
    """Read a HealthCheck. Raises BadInput when its type has no body."""
    rules = HealthRules(
        grace_period_s=_seconds(check, "grace_period", GRACE_PERIOD_S),
        consecutive_failures=int(check.get("consecutive_failures", CONSECUTIVE_FAILURES)),
        statuses=frozenset(map(int, (check.get("http") or {}).get("statuses", ()))),
    )
    delay_s, interval_s = _seconds(check, "delay", DELAY_S), _seconds(check, "interval", INTERVAL_S)
    return Plan(_probe(check, check.get("command")), delay_s, interval_s, rules)


def empty_status(check: Mapping[str, Any]) -> Document:
    """Return the CheckStatusInfo of a check that has found nothing yet; each status of its task carries it."""
    kind = _kind(check)
    return {"type": kind, _BODIES[kind]: {}}


def begin(
    plan: Plan, now_s: float, *, since_s: float | None = None, healthy: bool | None = None, last: Document | None = None
) -> Course:
    """Return the course of a check that begins now, of a task that runs since `since_s` (default: now).

    `healthy` and `last` are what was reported last, when a check is taken up again after a restart.
    """
    since_s = now_s if since_s is None else since_s
    grace_s = 0.0 if plan.health is None else plan.health.grace_period_s
    failures = 1 if healthy is False else 0  # so that the next success is news
    return Course(plan, max(now_s, since_s + plan.delay_s), since_s + grace_s, bool(healthy), failures, last)


def asked(course: Course) -> Course:
    """Return the course while its probe is under way."""
    return replace(course, due_s=None)


def answered(course: Course, result: Result, now_s: float) -> tuple[Course, News | None]:
    """Take what a probe found; the next is due an interval after this one ended."""
    course = replace(course, due_s=now_s + course.plan.interval_s)
    if course.plan.health is None:
        status = _status(course.plan.probe.kind, result)
        if status == (course.last or {"type": course.plan.probe.kind, _BODIES[course.plan.probe.kind]: {}}):
            return course, None
        return replace(course, last=status), CheckNews(status)
    problem = _problem(course.plan, course.plan.health, result)
    if problem is None:
        news = HealthNews(True) if not course.proven or course.failures else None
        return replace(course, proven=True, failures=0), news
    if not course.proven and now_s < course.grace_ends_s:
        return course, None
    failures = course.failures + 1
    kill = failures >= course.plan.health.consecutive_failures
    return replace(course, failures=failures), HealthNews(False, kill, problem)


def _problem(plan: Plan, rules: HealthRules, result: Result) -> str | None:
    """Return why this result is a failure, None for a success."""
    if result.error is not None:
        return result.error
    if plan.probe.kind == "COMMAND":
        return None if result.exit_code == 0 else f"Command returned {result.exit_code}"
    if plan.probe.kind == "TCP":
        return None if result.connected else f"Connecting to port {plan.probe.port} failed"
    code = result.status_code
    well = code is not None and (code in rules.statuses if rules.statuses else 200 <= code < 400)
    return None if well else f"Unexpected HTTP response code: {code}"


def _status(kind: Kind, result: Result) -> Document:
    found: Document = {}
    if result.error is None:
        if kind == "COMMAND" and result.exit_code is not None:
            found = {"exit_code": result.exit_code}
        elif kind == "HTTP" and result.status_code is not None:
            found = {"status_code": result.status_code}
        elif kind == "TCP" and result.connected is not None:
            found = {"succeeded": result.connected}
    return {"type": kind, _BODIES[kind]: found}


def _probe(check: Mapping[str, Any], command: Mapping[str, Any] | None) -> Probe:
    kind = _kind(check)
    timeout_s: float | None = _seconds(check, "timeout", TIMEOUT_S) or None
    if kind == "COMMAND":
        if not (command or {}).get("value"):
            raise BadInput("a COMMAND check has no command to run")
        return Probe(kind, timeout_s, command=command)
    body = check.get(_BODIES[kind]) or {}
    if "port" not in body:
        raise BadInput(f"the {kind} check names no port")
    if kind == "TCP":
        return Probe(kind, timeout_s, port=int(body["port"]), ipv6=body.get("protocol") == "IPv6")
    scheme = str(body.get("scheme", "http"))
    if scheme not in ("http", "https"):
        raise BadInput(f"the HTTP check has the scheme '{scheme}': only http and https can be asked")
    return Probe(
        kind,
        timeout_s,
        scheme=scheme,
        port=int(body["port"]),
        path=str(body.get("path", "")),
        ipv6=body.get("protocol") == "IPv6",
    )


def _kind(check: Mapping[str, Any]) -> Kind:
    """Return the type; old frameworks leave it out, and the body says it."""
    kind = check.get("type")
    if kind in _BODIES:
        return cast("Kind", kind)
    for name, body in _BODIES.items():
        if body in check and kind in (None, "UNKNOWN"):
            return cast("Kind", name)
    raise BadInput(f"a check of type {kind} is not known: COMMAND, HTTP or TCP")


def _seconds(check: Mapping[str, Any], name: str, default: float) -> float:
    return max(0.0, float(check.get(f"{name}_seconds", default)))
