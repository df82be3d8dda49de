"""Who comes into a group is let in at once, who leaves it is not let in any more, and a directory may fail."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mesos_gpu.local.membership import Membership

ANNA, BELA = {"anna": 1000}, {"bela": 1001}


class Group:
    """A group whose members are said by tests, and a box that takes them over."""

    def __init__(self) -> None:
        self.now: Mapping[str, int] | Exception = ANNA
        self.told: list[Mapping[str, int]] = []
        self.fails: Exception | None = None
        self.membership = Membership("gpu-users", ANNA, self._changed, self._look)

    def _look(self, group: str) -> Mapping[str, int]:
        assert group == "gpu-users"
        if isinstance(self.now, Exception):
            raise self.now
        return self.now

    async def _changed(self, members: Mapping[str, int]) -> None:
        if self.fails is not None:
            raise self.fails
        self.told.append(dict(members))

    async def looks(self, *nows: Mapping[str, int] | Exception) -> list[Mapping[str, int]]:
        self.told.clear()
        for self.now in nows:
            await self.membership.look()
        return self.told


async def test_who_comes_is_let_in_at_the_next_look() -> None:
    group = Group()
    assert await group.looks(ANNA, ANNA | BELA, ANNA | BELA) == [ANNA | BELA]


async def test_who_is_gone_twice_in_a_row_is_let_in_no_more() -> None:
    group = Group()
    assert await group.looks({}, ANNA, {}) == []
    assert await group.looks({}) == [{}]
    assert await group.looks(ANNA) == [ANNA]
    assert await group.looks(BELA, BELA) == [ANNA | BELA, BELA]


@pytest.mark.parametrize("error", [KeyError("gpu-users"), OSError("the directory does not answer")])
async def test_a_directory_that_fails_for_a_moment_throws_nobody_out(error: Exception) -> None:
    group = Group()
    assert await group.looks(error, ANNA, error, ANNA) == []


async def test_a_group_that_is_gone_has_no_members() -> None:
    assert await Group().looks(KeyError("gpu-users"), KeyError("gpu-users")) == [{}]


async def test_another_user_of_a_name_comes_after_the_one_before_has_gone() -> None:
    other = {"anna": 2000}
    assert await Group().looks(other, other, other) == [{}, other]


async def test_a_box_that_cannot_follow_tries_again() -> None:
    group = Group()
    group.fails = OSError("disk full")
    assert await group.looks(ANNA | BELA) == []
    group.fails = None
    assert await group.looks(ANNA | BELA) == [ANNA | BELA]
