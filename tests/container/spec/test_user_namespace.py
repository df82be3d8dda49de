"""Numbers of user namespaces: which ranges can be, whose files are whose, and what a bundle says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.container.host.users import HostUser
from mesos_gpu.container.spec.bundle import HostSetting, compose
from mesos_gpu.container.spec.config import ContainerConfig
from mesos_gpu.container.spec.user_namespace import (
    LAST_ID,
    IdMap,
    IdRange,
    Numbers,
    UserView,
    everyone,
    on_disk,
    on_the_host,
    own,
    read_range,
)
from mesos_gpu.errors import BadInput
from mesos_gpu.gpu.device import DeviceNode
from mesos_gpu.isolator.plan import DeviceRule, LaunchPlan

IDS = IdRange(100000, 65536)
HOST = HostSetting("/run/agent/host", "mesos", ("/usr/bin/tini", "--"), ())
CONFIG = ContainerConfig("c", Path("/srv/sandbox"), ("true",), {}, None, 1000, 1 << 30, 1)
GPU = LaunchPlan(nodes=(DeviceNode("/dev/nvidia0", 195, 0),), rules=(DeviceRule("c", 195, 0, "rwm"),))
numbers = st.integers(0, LAST_ID)


def seen(extents: tuple[tuple[int, int, int], ...], number: int) -> int | None:
    """Return who an owner on disk is, as the kernel reads a map."""
    found = [first + number - inside for inside, first, count in extents if inside <= number < inside + count]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "default",
        "1:2:3",
        "-1:65536",
        "100000:65535",
        "1000:65536",
        "4294901761:65536",
        "100000:99999999999",
        "٣:65536",
    ],
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        read_range(text)


@given(first=st.integers(65536, LAST_ID), count=st.integers(65536, LAST_ID))
def test_a_range_is_read_as_it_is_written_or_goes_beyond_the_last_number(first: int, count: int) -> None:
    ids = IdRange(first, count)
    if first + count - 1 > LAST_ID:
        with pytest.raises(BadInput, match="beyond the largest number"):
            read_range(str(ids))
    else:
        assert read_range(str(ids)) == ids
        assert [number in ids for number in (first - 1, first, first + count - 1, first + count)] == [0, 1, 1, 0]


@given(number=numbers)
def test_with_everyones_map_each_owner_is_the_containers_user_of_that_number(number: int) -> None:
    expected = IDS.first + number if number < IDS.count else None
    assert seen(everyone(IDS).uids, number) == seen(everyone(IDS).gids, number) == expected


@pytest.mark.parametrize("disk", [IDS, IdRange(300000, 65536), IdRange(165536, 65536)], ids=["shared", "own", "beside"])
@given(
    user=st.builds(HostUser, numbers, numbers, st.lists(numbers | st.integers(0, 70000), max_size=200).map(tuple)),
    number=numbers | st.integers(0, 400000),
)
def test_in_the_hosts_folders_all_are_who_they_are_but_the_containers_own(
    disk: IdRange, user: HostUser, number: int
) -> None:
    """Nobody of the host's is anybody in the container but the task's user, and each has a number."""
    both = Numbers(IDS, disk)
    ids, mine = on_the_host(user, both), own(user, both)
    if mine is None:
        assert ids is None
        return
    assert isinstance(ids, IdMap)
    for all_of, of_containers, kept in (
        (ids.uids, mine.uids, {user.uid}),
        (ids.gids, mine.gids, {user.gid, *user.groups}),
    ):
        assert len(all_of) <= 340
        shown = seen(all_of, number)
        if (theirs := seen(of_containers, number)) is not None:
            assert shown == theirs
            assert number in disk or number in kept
        elif number in IDS or number in disk:
            assert shown is None, "another container's user with these numbers had it"
        else:
            assert shown == number
            assert shown not in IDS
        assert seen(all_of, 0) == 0


@pytest.mark.parametrize("disk", [IDS, IdRange(300000, 65536)], ids=["shared", "own"])
@given(
    user=st.builds(HostUser, st.integers(0, 70000), st.integers(0, 70000), st.lists(st.integers(0, 70000)).map(tuple)),
    number=st.integers(0, IDS.count - 1),
)
def test_in_a_tasks_own_folders_each_of_its_users_is_himself_and_on_disk_nobody_or_the_tasks(
    disk: IdRange, user: HostUser, number: int
) -> None:
    """Also where a container's numbers are not those on disk: then its root is mapped, too."""
    both = Numbers(IDS, disk)
    who = on_disk(HostUser(number, number), user, both)
    assert who.uid == (number if number == user.uid != 0 else disk.first + number)
    ids = own(user, both)
    if ids is None:  # nothing is mapped: numbers on disk are the host's
        assert disk == IDS
        assert (who.uid, who.gid) == (IDS.first + number, IDS.first + number)
        return
    for extents in (ids.uids, ids.gids):
        assert len(extents) <= 340
        assert sum(count for _, _, count in extents) == IDS.count
    assert seen(ids.uids, who.uid) == seen(ids.gids, who.gid) == IDS.first + number
    assert seen(ids.uids, 0) is None
    assert seen(ids.gids, 0) is None


@given(number=numbers)
def test_who_has_no_number_is_refused(number: int) -> None:
    for user in (HostUser(number, 0), HostUser(0, number), HostUser(0, 0, (number,))):
        if number < IDS.count:
            IDS.check_user(user)
        else:
            with pytest.raises(BadInput, match=f"{number} has no number"):
                IDS.check_user(user)


def composed(**more: Any) -> dict[str, Any]:
    return compose(CONFIG, GPU, HostUser(0, 0), HOST, sandbox="/b/shown/sandbox", **more)


def test_a_bundle_has_the_namespace_its_devices_and_its_sandbox() -> None:
    plain = composed()["linux"]
    assert {"type": "user"} not in plain["namespaces"]
    assert not {"uidMappings", "gidMappings"} & set(plain)
    document = composed(users=UserView(IDS, "/b/devices"))
    linux = document["linux"]
    assert {"type": "user"} in linux["namespaces"]
    assert linux["uidMappings"] == linux["gidMappings"] == [{"containerID": 0, "hostID": 100000, "size": 65536}]
    assert linux["devices"] == []  # no runtime can make them there
    assert linux["resources"]["devices"] == plain["resources"]["devices"]  # the wall is the same
    places = {mount["destination"]: mount for mount in document["mounts"]}
    assert (places["/dev"]["type"], places["/dev"]["source"]) == ("bind", "/b/devices")
    assert "nodev" not in places["/dev"]["options"]
    assert places["/srv/sandbox"]["source"] == "/b/shown/sandbox"


def test_a_nested_one_joins_its_parents() -> None:
    linux = composed(users=UserView(IDS, "/b/devices", "/proc/7/ns/user"))["linux"]
    assert {"type": "user", "path": "/proc/7/ns/user"} in linux["namespaces"]
