"""How what is mounted below a folder is told to a runtime."""

from __future__ import annotations

from mesos_gpu.container.spec.submounts import Submount, with_mounts

PROC = {"destination": "/proc", "type": "proc", "source": "proc"}
VOLUME = {"destination": "/data/", "type": "bind", "source": "/held/0", "options": ["rbind", "rw"]}
LATER = {"destination": "/data/sub/other", "type": "bind", "source": "/held/1", "options": ["rbind", "rw"]}


def test_mounts_below_a_folder_come_right_after_it_with_the_flags_that_they_have() -> None:
    """What the bundle mounts later lies over them."""
    below = {"/held/0": [Submount("sub", ("ro", "nosuid")), Submount("sub/deep", ())]}
    found = list(with_mounts([PROC, VOLUME, LATER], below))
    assert [found[0], found[1], found[4]] == [PROC, VOLUME, LATER]
    assert found[2] == {
        "destination": "/data/sub",
        "type": "bind",
        "source": "/held/0/sub",
        "options": ["rbind", "ro", "nosuid"],
    }
    assert (found[3]["destination"], found[3]["source"]) == ("/data/sub/deep", "/held/0/sub/deep")


def test_without_any_all_is_as_it_was() -> None:
    assert list(with_mounts([PROC, VOLUME], {})) == [PROC, VOLUME]
