"""Every flag of every program: one test of all that follows from a field, and that the program acts on it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.agent.configuration import check_flags as check_agent
from mesos_gpu.agent.flags import COMMAND_LINE as AGENT
from mesos_gpu.doors.kubernetes.service import COMMAND_LINE as PLUGIN
from mesos_gpu.errors import BadFlag
from mesos_gpu.marathon.configuration import checked as check_marathon
from mesos_gpu.marathon.flags import COMMAND_LINE as MARATHON
from mesos_gpu.master.configuration import check_flags as check_master
from mesos_gpu.master.flags import COMMAND_LINE as MASTER
from mesos_gpu.mesos.flags import (
    BOOLEAN,
    BYTES,
    DURATION,
    INTEGER,
    LIST,
    MILLISECONDS,
    NUMBER,
    CommandLine,
    Flag,
    Flags,
    InertFlag,
    flags_as_text,
    flags_of,
    help_text,
    parse_flags,
)
from mesos_gpu.mesos.security.tls_settings import TlsFlags

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reference" / "flags.md").read_text()
FOLDERS = {
    AGENT.program: "mesos_gpu/agent",
    MASTER.program: "mesos_gpu/master",
    MARATHON.program: "mesos_gpu/marathon",
    PLUGIN.program: "mesos_gpu/doors/kubernetes",
}
LINES: tuple[CommandLine[Any], ...] = (AGENT, MASTER, MARATHON, PLUGIN)
ALL = [pytest.param(line, flag, id=f"{line.program}-{flag.name}") for line in LINES for flag in flags_of(line.flags)]
INERT = [pytest.param(line, row, id=f"{line.program}-{row.name}") for line in LINES for row in line.inert]
CHECKS = {AGENT.program: check_agent, MASTER.program: check_master, MARATHON.program: check_marathon}
FOR_THE_OTHER = {(AGENT.program, "gpus_are_scarce"), (MASTER.program, "enable_gpu_isolation")}
"""Switches of DC/OS that a cluster's configuration gives to all programs, and that one of them acts on."""
WRONG = {
    BOOLEAN: ("maybe",),
    BYTES: ("1", "-1KB"),
    DURATION: ("1", "-1secs"),
    INTEGER: ("x", "1.5"),
    MILLISECONDS: ("x", "-1"),
    NUMBER: ("x", "nan"),
}
"""Texts that are not a value of a kind."""


def least(line: CommandLine[Any]) -> list[str]:
    """Words for the flags that must be given."""
    return [f"--{flag.name}=/given" for flag in flags_of(line.flags) if flag.required]


def parsed(line: CommandLine[Any], *words: str, **environ: str) -> Flags:
    flags: Flags = parse_flags(line, [*least(line), *words], environ)[0]
    return flags


def other_value(flag: Flag) -> Any:
    """A value that is allowed and is not the default."""
    if flag.one_of:
        value = next((value for value in flag.one_of if value != flag.default), next(iter(flag.one_of)))
        return (value,) if flag.kind is LIST else value
    if flag.kind is BOOLEAN:
        return not flag.default
    if flag.kind is LIST:
        return ("a", "b")
    if flag.kind in (DURATION, MILLISECONDS, NUMBER, INTEGER, BYTES):
        highest = flag.at_most if flag.at_most is not None else (flag.default or 0) + 8
        value = highest if highest != flag.default else flag.at_least
        return int(value) if flag.kind in (INTEGER, BYTES) else float(value)
    return "other"


def written(flag: Flag, value: Any) -> str:
    return f"{value}B" if flag.kind is BYTES else flag.kind.text(value)


@pytest.mark.parametrize(("line", "flag"), ALL)
def test_a_flag_is_read_from_the_command_line_and_from_the_environment(line: CommandLine[Any], flag: Flag) -> None:
    value = other_value(flag)
    variables = {f"{line.prefix}{flag.name.upper()}": written(flag, value)}
    assert getattr(parsed(line, f"--{flag.name}={written(flag, value)}"), flag.name) == value
    if flag.kind is not BOOLEAN:
        assert getattr(parsed(line, f"--{flag.name}", written(flag, value)), flag.name) == value
    if not flag.required:
        assert getattr(parsed(line), flag.name) == flag.default
        assert getattr(parsed(line, **variables), flag.name) == value
    if flag.default is not None:
        word = f"--{flag.name}={written(flag, flag.default)}"
        assert getattr(parsed(line, word, **variables), flag.name) == flag.default, "the command line wins"


@pytest.mark.parametrize(("line", "flag"), [param for param in ALL if param.values[1].kind is BOOLEAN])  # type: ignore[union-attr]
def test_a_boolean_is_switched_on_and_off_by_its_name(line: CommandLine[Any], flag: Flag) -> None:
    assert getattr(parsed(line, f"--{flag.name}"), flag.name) is True
    assert getattr(parsed(line, f"--no-{flag.name}"), flag.name) is False
    if line.off_prefix is not None:
        assert getattr(parsed(line, f"--{flag.name}", f"--{line.off_prefix}{flag.name}"), flag.name) is False


@pytest.mark.parametrize(("line", "flag"), ALL)
def test_a_flag_refuses_what_is_no_value_and_what_is_out_of_bounds_by_its_name(
    line: CommandLine[Any], flag: Flag
) -> None:
    wrong = list(WRONG.get(flag.kind, ()))
    wrong += ["no-such-choice"] if flag.one_of else []
    wrong += [""] if flag.required else []
    if flag.above is not None:
        wrong.append(written(flag, flag.above))
    if flag.at_least is not None and flag.at_least > 0:
        wrong.append(written(flag, 0))
    if flag.at_least == 0 and flag.kind in (INTEGER, NUMBER):
        wrong.append("-1")
    if flag.at_most is not None:
        wrong.append(written(flag, flag.at_most + 1))
    for text in wrong:
        if flag.kind is NUMBER and text == "nan" and flag.at_least is None:
            continue
        with pytest.raises(BadFlag) as refused:
            parsed(line, f"--{flag.name}={text}")
        assert refused.value.flag == flag.name, text


@pytest.mark.parametrize(("line", "flag"), ALL)
def test_a_default_is_within_its_own_bounds(line: CommandLine[Any], flag: Flag) -> None:
    if flag.default is not None:
        assert flag.read(written(flag, flag.default)) == flag.default


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.program)
def test_defaults_do_not_contradict_each_other(line: CommandLine[Any]) -> None:
    CHECKS.get(line.program, lambda _: None)(parsed(line))  # type: ignore[operator]


@pytest.mark.parametrize(("line", "flag"), ALL)
def test_a_flag_is_in_the_help_and_on_the_page(line: CommandLine[Any], flag: Flag) -> None:
    shown = f"--[no-]{flag.name}" if flag.kind is BOOLEAN else f"--{flag.name}=VALUE"
    default = "" if flag.default is None else f" (default: {flag.default_text})"
    assert flag.help.endswith(".")
    assert f"\n  {shown}\n      {flag.help}{default}\n" in f"{help_text(line)}\n"
    section = re.search(rf"^## {line.program}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    if section is not None:
        rows = re.findall(rf"^\| `--{flag.name}` \|", section[1], re.M)
        assert len(rows) == (flag in line.service_flags)


@pytest.mark.parametrize(("line", "flag"), ALL)
def test_a_flag_is_shown_with_its_value(line: CommandLine[Any], flag: Flag) -> None:
    assert flags_as_text(parsed(line)).get(flag.name) == (
        "/given" if flag.required else None if flag.default is None else flag.default_text
    )
    value = other_value(flag)
    assert flags_as_text(parsed(line, f"--{flag.name}={written(flag, value)}"))[flag.name] == flag.kind.text(value)


def fields_read(folder: str, variable: str = "flags") -> set[str]:
    """The names that code reads of a variable, outside of modules that only declare flags."""
    return {
        node.attr
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "flags.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == variable
    }


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.program)
def test_a_program_acts_on_each_of_its_flags(line: CommandLine[Any]) -> None:
    """A flag with one value is checked where it is parsed, and has nothing that could be read."""
    has_choice = {flag.name for flag in flags_of(line.flags) if len(flag.one_of) != 1}
    unread = has_choice - fields_read(FOLDERS[line.program])
    assert {(line.program, name) for name in unread} <= FOR_THE_OTHER


def test_an_error_about_a_flag_names_one_that_exists() -> None:
    known = {name for line in LINES for name in line.known()}
    named = {
        (str(path.relative_to(ROOT)), call.args[0].value)
        for path in (ROOT / "mesos_gpu").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "BadFlag"
        if isinstance(call.args[0], ast.Constant)
    }
    assert len(named) > 50
    assert {(path, name) for path, name in named if name not in known} == set()


def test_tls_acts_on_each_of_its_variables() -> None:
    names = {flag.name for flag in flags_of(TlsFlags)}
    assert names == fields_read("mesos_gpu/mesos/security", "values") & names


@pytest.mark.parametrize(("line", "row"), INERT)
def test_a_flag_without_a_meaning_here_is_reported_or_refused_with_the_reason(
    line: CommandLine[Any], row: InertFlag
) -> None:
    def given(text: str) -> list[str]:
        return parse_flags(line, [*least(line), f"--{row.name}={text}"], {})[1]

    assert row.name not in {flag.name for flag in flags_of(line.flags)}
    assert len(row.why) > 10
    assert not row.why.endswith(".")
    value = "true" if row.kind is BOOLEAN else "something"
    if row.accepted is None:
        (said,) = given(value)
        assert said.startswith(f"--{row.name} ")
        assert row.why in said
        return
    if value not in row.accepted:
        with pytest.raises(BadFlag) as refused:
            given(value)
        assert refused.value.flag == row.name
        assert row.why in refused.value.problem
    for harmless in row.accepted:
        assert given(harmless) == []


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.program)
def test_each_name_is_declared_once(line: CommandLine[Any]) -> None:
    inert = [row.name for row in line.inert]
    own = [flag.name for flag in flags_of(line.flags)]
    names = [*inert, *own, *line.old_names]
    assert len(names) == len(set(names))
    for old, current in line.old_names.items():
        assert line.known()[old].name == current
        assert f"--{old}=" not in help_text(line)


def test_flags_cannot_be_changed() -> None:
    flags = parsed(AGENT)
    with pytest.raises(AttributeError):
        flags.port = 1  # type: ignore[attr-defined]
    assert flags.replace(port=1).port == 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        flags.replace(prot=1)
