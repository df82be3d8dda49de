"""Flags of Marathon's that do nothing here: taken where that harms nobody, else refused with the reason."""

from __future__ import annotations

import pytest

from mesos_gpu.errors import BadFlag
from mesos_gpu.marathon.configuration import FLAGS, PREFIX
from mesos_gpu.marathon.marathon_flags import FOREIGN, FOREIGN_FLAGS, settle
from mesos_gpu.mesos.flags import help_text, parse_flags


def said(*argv: str) -> list[str]:
    return settle(parse_flags([*FLAGS, *FOREIGN_FLAGS], ["--master=m:5050", *argv], {}, prefix=PREFIX))


def test_the_line_of_an_existing_marathon_is_taken_and_what_does_nothing_is_named() -> None:
    line = (
        "--zk zk://z:2181/marathon --hostname h --disable_ha --zk_max_versions 50 --zk_connection_timeout 10000 "
        "--executor //cmd --checkpoint --https_port 8443 --scale_apps_interval 300000"
    )
    assert [sentence.split()[0] for sentence in said(*line.split())] == [
        "--disable_ha",
        "--zk_connection_timeout",
        "--scale_apps_interval",
        "--https_port",
    ]
    assert said() == []


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--zk_max_versions=5", "only 50 is accepted"),
        ("--no-checkpoint", "only true is accepted"),
        ("--disable_checkpoint", "only false is accepted"),
        ("--plugin_dir=/p", "nothing can be plugged in"),
        ("--ssl_keystore_path=/k", "no TLS"),
        ("--mesos_authentication_secret=s", "--mesos_authentication_secret_file"),
        ("--max_apps=3", "not limited"),
    ],
)
def test_what_somebody_relies_on_is_refused(flag: str, problem: str) -> None:
    with pytest.raises(BadFlag, match=problem):
        said(flag)


def test_each_is_there_once_and_not_in_the_help() -> None:
    names = [row.name for row in FOREIGN]
    assert len(names) == len(set(names))
    assert not set(names) & {flag.name for flag in FLAGS}
    assert "zk_max_versions" not in help_text([*FLAGS, *FOREIGN_FLAGS], "", PREFIX)
