"""A list of device rules as the program that cgroup v2 asks instead of reading a list. Pure: rules in, bytes out.

The kernel calls it for each open and mknod with `struct bpf_cgroup_dev_ctx` {access << 16 | type, major, minor}; it
answers 1 to let it through, else 0. linux/bpf.h; Documentation/bpf/standardization/instruction-set.rst.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from mesos_gpu.isolator.plan import DeviceRule

TYPES = {"b": 1, "c": 2}
ACCESSES = {"m": 1, "r": 2, "w": 4}
INSTRUCTION = struct.Struct("=BBhi")

# Operation codes, all of 32 bit: loads from the context, and moves, logic and jumps on registers.
LOAD, COPY, SET, AND, SHIFT_RIGHT, UNLESS_EQUAL, UNLESS_SAME, EXIT = 0x61, 0xBC, 0xB4, 0x54, 0x74, 0x56, 0x5E, 0x95

_ANSWER, _CONTEXT, _TYPE, _ACCESS, _MAJOR, _MINOR = range(6)
_SCRATCH = _CONTEXT  # not needed any more once the three words are loaded


def assemble(rules: Iterable[DeviceRule]) -> bytes:
    """Return the program that allows what one of `rules` allows, and nothing else.

    As in cgroup v1, one rule has to allow all that is asked: `r` and `w` of the same device are not put together.
    """
    program = [
        _op(LOAD, _TYPE, _CONTEXT, offset=0),
        _op(COPY, _ACCESS, _TYPE),
        _op(AND, _TYPE, value=0xFFFF),
        _op(SHIFT_RIGHT, _ACCESS, value=16),
        _op(LOAD, _MAJOR, _CONTEXT, offset=4),
        _op(LOAD, _MINOR, _CONTEXT, offset=8),
    ]
    for rule in rules:
        program += _allow(rule)
    program += [_op(SET, _ANSWER, value=0), _op(EXIT)]
    return b"".join(program)


def _allow(rule: DeviceRule) -> list[bytes]:
    """Return instructions that answer 1 when `rule` allows what is asked, and go on behind themselves when not."""
    allowed = sum(ACCESSES[letter] for letter in rule.access)
    tests = [(_TYPE, TYPES[rule.type]), (_MAJOR, rule.major), (_MINOR, rule.minor)]
    wanted = [(register, value) for register, value in tests if value is not None]
    size = len(wanted) + 3 + 2
    block: list[bytes] = []

    def to_the_end() -> int:
        return size - len(block) - 1

    for register, value in wanted:
        block.append(_op(UNLESS_EQUAL, register, offset=to_the_end(), value=value))
    block += [_op(COPY, _SCRATCH, _ACCESS), _op(AND, _SCRATCH, value=allowed)]
    block.append(_op(UNLESS_SAME, _SCRATCH, _ACCESS, offset=to_the_end()))
    return [*block, _op(SET, _ANSWER, value=1), _op(EXIT)]


def _op(code: int, to: int = 0, source: int = 0, *, offset: int = 0, value: int = 0) -> bytes:
    return INSTRUCTION.pack(code, source << 4 | to, offset, value)
