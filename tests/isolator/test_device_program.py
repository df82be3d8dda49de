"""The device program, run by a small machine of our own, beside what its rules say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.isolator.access import BASE_RULES
from mesos_gpu.isolator.device_program import (
    ACCESSES,
    AND,
    COPY,
    EXIT,
    INSTRUCTION,
    LOAD,
    SET,
    SHIFT_RIGHT,
    TYPES,
    UNLESS_EQUAL,
    UNLESS_SAME,
    assemble,
)
from mesos_gpu.isolator.plan import DeviceRule


def answer(program: bytes, kind: str, major: int, minor: int, access: str) -> bool:
    """Run the program as the kernel would for that question."""
    instructions = list(INSTRUCTION.iter_unpack(program))
    words = {0: sum(ACCESSES[letter] for letter in access) << 16 | TYPES[kind], 4: major, 8: minor}
    registers: dict[int, int] = {1: -1}
    at = 0
    while True:
        code, pair, offset, value = instructions[at]
        to, source = pair & 15, pair >> 4
        at += 1
        if code == LOAD:
            assert registers[source] == -1, "what is loaded from is the context"
            registers[to] = words[offset]
        elif code == COPY:
            registers[to] = registers[source]
        elif code == SET:
            registers[to] = value
        elif code == AND:
            registers[to] &= value
        elif code == SHIFT_RIGHT:
            registers[to] >>= value
        elif code == UNLESS_EQUAL:
            at += offset if registers[to] != value else 0
        elif code == UNLESS_SAME:
            at += offset if registers[to] != registers[source] else 0
        else:
            assert code == EXIT
            return bool(registers[0])


def allowed(rules: list[DeviceRule], kind: str, major: int, minor: int, access: str) -> bool:
    return any(
        rule.type == kind
        and rule.major in (None, major)
        and rule.minor in (None, minor)
        and set(access) <= set(rule.access)
        for rule in rules
    )


NUMBERS = st.one_of(st.sampled_from([0, 1, 2, 195, 255]), st.integers(0, (1 << 20) - 1))
ACCESS = st.sets(st.sampled_from("rwm"), min_size=1).map(lambda some: "".join(one for one in "rwm" if one in some))
RULES = st.lists(
    st.builds(DeviceRule, st.sampled_from("bc"), st.none() | NUMBERS, st.none() | NUMBERS, ACCESS), max_size=8
)


@given(rules=RULES, kind=st.sampled_from("bc"), major=NUMBERS, minor=NUMBERS, access=ACCESS)
def test_program_allows_what_its_rules_allow(
    rules: list[DeviceRule], kind: str, major: int, minor: int, access: str
) -> None:
    assert answer(assemble(rules), kind, major, minor, access) == allowed(rules, kind, major, minor, access)


def test_base_rules_let_make_every_node_and_open_none_but_theirs() -> None:
    program = assemble(BASE_RULES)
    assert answer(program, "c", 195, 0, "m")
    assert not answer(program, "c", 195, 0, "r")
    assert not answer(program, "c", 195, 0, "rm"), "one rule must allow all that is asked"
    assert answer(program, "c", 1, 3, "rw")


def test_no_rule_allows_nothing() -> None:
    assert not answer(assemble([]), "c", 1, 3, "r")
