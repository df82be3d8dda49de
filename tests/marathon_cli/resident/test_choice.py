"""Which commands go to the helper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.lazy import rows_below
from marathon_cli.registry import ROWS
from marathon_cli.resident.choice import AGAIN_WITHIN_S, QUICK, is_for_helper, is_kept, worth_starting

PLAIN = {"LANG": "en_US.UTF-8", "HOME": "/root"}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "--version",
        "run -- true",
        "run --gpus 2 busybox ls /",
        "run -- sh -c 'ls -lt /proc'",
        "app list",
        "app list -o wide",
        "app list --json",
        "app add app.json",
        "app scale train 3",
        "get pods",
        "ps",
        "task log train",
        "why train",
    ],
)
def test_short_commands_are_for_the_helper(line: str) -> None:
    assert is_for_helper(line.split(), PLAIN, typed=True)


@pytest.mark.parametrize(
    "line",
    [
        "up --detach",
        "down",
        "status",
        "doctor",
        "uninstall",
        "completion bash",
        "ui",
        "task exec train ls",
        "task attach train",
        "exec -it train sh",
        "run -it busybox sh",
        "run -ti busybox sh",
        "run --tty busybox",
        "run --interact busybox",
        "app list --watch",
        "app list --wat",
        "app list -w",
        "app add app.json --wait",
        "task log train -f",
        "logs -f train",
        "task log train --follow",
        "app update train instances=3",
        "group remove /a",
        "config set password",
        "gpu top",
        "--marathon-url http://x app list",
        "app list --auth me",
        "app list --auth=me",
        "app add /dev/fd/63",
        "app add file:///proc/self/fd/5",
        "app",
        "nonsense",
    ],
)
def test_what_lasts_or_asks_or_is_not_known_is_carried_out_directly(line: str) -> None:
    assert not is_for_helper(line.split(), PLAIN, typed=True)


def test_standard_input_is_for_the_helper_when_nobody_types_there() -> None:
    assert is_for_helper(["app", "add", "-"], PLAIN, typed=False)
    assert not is_for_helper(["app", "add", "-"], PLAIN, typed=True)


def test_a_shell_that_completes_is_answered_by_the_helper() -> None:
    assert is_for_helper([], {**PLAIN, "_MESOS_GPU_COMPLETE": "bash_complete"}, typed=True)
    assert not is_for_helper(["app"], {**PLAIN, "_MESOS_GPU_COMPLETE": "bash_complete"}, typed=True)


@pytest.mark.parametrize("word", ["0", "no", "off", "false", "False"])
def test_the_environment_turns_it_off(word: str) -> None:
    assert not is_for_helper(["app", "list"], {**PLAIN, "MESOS_GPU_RESIDENT": word}, typed=False)


@pytest.mark.parametrize(
    "environ",
    [
        {"PYTHONPATH": "/tmp"},
        {"PYTHONHOME": "/x"},
        {"PYTHONWARNINGS": "error"},
        {"PYTHONUTF8": "0"},
        {"LANG": "de_DE.ISO-8859-1"},
        {"LANG": "zh_CN"},
        {"LC_ALL": "zh_CN.GBK", "LANG": "en_US.UTF-8"},
        {"LC_CTYPE": "ru_RU.KOI8-R"},
    ],
)
def test_an_environment_that_changes_python_goes_with_its_command_alone(environ: dict[str, str]) -> None:
    assert not is_for_helper(["app", "list"], environ, typed=False)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LANG": "C"},
        {"LC_ALL": "POSIX"},
        {"LANG": "zh_CN.UTF-8"},
        {"LANG": "sr_RS.UTF-8@latin"},
        {"LC_ALL": "C.utf8", "LANG": "de_DE.ISO-8859-1"},
        {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    ],
)
def test_usual_environments_do_not_matter(environ: dict[str, str]) -> None:
    assert is_for_helper(["app", "list"], environ, typed=False)


@given(st.lists(st.sampled_from(["app", "list", "run", "--", "-it", "--watch", "-w", "up", "x", "-o", "json", "ps"])))
def test_what_follows_two_dashes_is_another_program_s_affair(words: list[str]) -> None:
    before = words[: words.index("--")] if "--" in words else words
    assert is_for_helper([*before, "--", "-it", "--watch"], PLAIN, typed=False) == is_for_helper(
        [*before, "--"], PLAIN, typed=False
    )


def test_each_is_a_command_or_a_word_of_another_tool() -> None:
    from marathon_cli.lazy import LazyGroup

    paths = {row.path for row in ROWS}
    top = LazyGroup(name="mesos-gpu")
    for path in sorted(QUICK - paths):
        first, _, second = path.partition(" ")
        group = top.get_command(None, first)  # type: ignore[arg-type]
        assert group is not None, path
        assert not second or group.get_command(None, second) is not None, path  # type: ignore[attr-defined]
    assert rows_below("")


def test_none_of_them_asks_anybody_by_itself() -> None:
    """Commands with --yes ask; they are carried out where the terminal is."""
    from marathon_cli.lazy import load

    for row in ROWS:
        if row.path in QUICK:
            assert not any("--yes" in option.opts for option in load(row).params), row.path


def test_the_second_call_within_minutes_is_worth_a_helper() -> None:
    assert not worth_starting(1000.0, None)
    assert worth_starting(1000.0, 999.0)
    assert worth_starting(1000.0, 1000.0 - AGAIN_WITHIN_S)
    assert not worth_starting(1000.0, 999.0 - AGAIN_WITHIN_S)
    assert not worth_starting(1000.0, 1001.0)


def test_the_helper_is_told_no_secrets() -> None:
    assert is_kept("HOME")
    assert is_kept("LD_LIBRARY_PATH")
    assert not is_kept("MESOS_GPU_PASSWORD")
    assert not is_kept("MARATHON_URL")
