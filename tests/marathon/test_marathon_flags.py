"""Marathon's flags: what each does here; those that do nothing are taken where that harms nobody, else refused."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.errors import BadFlag, InvalidApp
from mesos_gpu.marathon import configuration
from mesos_gpu.marathon.configuration import checked, secret, settings, unused
from mesos_gpu.marathon.engine.metrics import Metrics
from mesos_gpu.marathon.flags import COMMAND_LINE, MarathonFlags
from mesos_gpu.marathon.service import _set_logging
from mesos_gpu.marathon.state.actions import Decline, Kill, Launch, Suppress
from mesos_gpu.marathon.state.events import PutGroup, PutPod, RemoveApp, Tick
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.store.copy import back_up
from mesos_gpu.marathon.store.sqlite import SqliteStore
from mesos_gpu.mesos.flags import help_text, parse_flags
from tests.support.golden import Golden
from tests.support.marathon.builders import Run, app, container, only, pod, status


def flags(*argv: str, environ: dict[str, str] | None = None) -> MarathonFlags:
    return parse_flags(COMMAND_LINE, ["--master=m:5050", *argv], environ or {})[0]


def said(*argv: str) -> list[str]:
    return parse_flags(COMMAND_LINE, ["--master=m:5050", *argv], {})[1]


def run_with(*argv: str) -> Run:
    """A scheduler of the role that the builders use, started with these flags."""
    run = Run(settings=settings(checked(flags("--mesos_role=slave_public", *argv))))
    run.subscribe()
    return run


def test_the_line_of_an_existing_marathon_is_taken_and_what_does_nothing_is_named(golden: Golden) -> None:
    line = (
        "--zk zk://z:2181/marathon --hostname h --disable_ha --zk_max_versions 50 --zk_connection_timeout 10000 "
        "--executor //cmd --checkpoint --https_port 8443 --scale_apps_interval 300000"
    )
    assert [sentence.split()[0] for sentence in said(*line.split())] == [
        "--disable_ha",
        "--zk_connection_timeout",
        "--scale_apps_interval",
    ]
    assert unused(flags(*line.split())) == golden
    assert unused(flags("--ssl_cert_file=/c", "--ssl_key_file=/k", "--https_port=1")) == []
    assert said() == []


@pytest.mark.parametrize(
    "flag",
    [
        "--no-checkpoint",
        "--disable_checkpoint",
        "--plugin_dir=/p",
        "--ssl_keystore_path=/k",
        "--metrics_statsd",
        "--mesos_offer_constraints",
        "--default_accepted_resource_roles=*",
        "--leader_election_backend=other",
        "--logstash=tcp://l",
        "--assets_path=/a",
    ],
)
def test_what_somebody_relies_on_is_refused(flag: str, golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        said(flag)
    assert str(refused.value) == golden


def test_the_help_shows_flags_that_have_an_effect_by_one_name() -> None:
    shown = help_text(COMMAND_LINE)
    assert "plugin_dir" not in shown
    assert "disable_maintenance_mode" not in shown
    assert "draining_seconds" in shown


@pytest.mark.parametrize(
    ("argv", "environ", "on"),
    [
        ([], {}, True),
        (["--disable_maintenance_mode"], {}, False),
        (["--no-maintenance_mode"], {}, False),
        (["--disable_maintenance_mode=false"], {}, True),
        ([], {"MARATHON_DISABLE_MAINTENANCE_MODE": ""}, False),
        ([], {"MARATHON_MAINTENANCE_MODE": ""}, True),
    ],
)
def test_what_can_be_switched_is_switched_off_in_both_ways(argv: list[str], environ: dict[str, str], on: bool) -> None:
    assert flags(*argv, environ=environ).maintenance_mode is on


@pytest.mark.parametrize(
    "argv",
    [
        ["--new_group_enforce_role=all"],
        ["--local_port_min=20001"],
        ["--local_port_max=70000"],
        ["--logging_level=loud"],
        ["--draining_seconds=-1"],
        ["--zk_max_versions=0"],
        ["--max_apps=0"],
        ["--mesos_authentication_secret=s"],
        ["--mesos_authentication"],
        [
            "--mesos_authentication_principal=p",
            "--mesos_authentication_secret=s",
            "--mesos_authentication_secret_file=/f",
        ],
    ],
    ids=" ".join,
)
def test_values_that_do_not_go(argv: list[str], golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        checked(flags(*argv))
    assert str(refused.value) == golden


def test_the_secret_is_that_of_the_flag_of_the_file_or_none() -> None:
    given = ("--mesos_authentication_principal=p", "--mesos_authentication_secret=s")
    assert secret(checked(flags(*given))) == "s"
    assert secret(checked(flags("--mesos_authentication", *given))) == "s"
    assert secret(checked(flags("--disable_mesos_authentication", *given))) is None
    assert secret(checked(flags())) is None


def window(start_s: float, seconds: float = 600) -> dict[str, Any]:
    whole = {"start": {"nanoseconds": int(start_s * 1e9)}, "duration": {"nanoseconds": int(seconds * 1e9)}}
    return {"unavailability": whole}


@pytest.mark.parametrize(
    ("argv", "begins_in_s", "used"),
    [
        ([], 60, True),
        ([], -60, False),
        (["--draining_seconds=50"], 60, True),
        (["--draining_seconds=70"], 60, False),
        (["--disable_maintenance_mode"], -60, True),
        (["--disable_maintenance_mode", "--draining_seconds=70"], 60, True),
    ],
)
def test_agents_near_their_maintenance_are_left_alone(argv: list[str], begins_in_s: float, used: bool) -> None:
    run = run_with(*argv)
    run.put(app())
    actions = run.offer(**window(run.now_s + begins_in_s))
    assert bool(only(actions, Launch)) is used
    assert bool(only(actions, Decline)) is not used


def test_service_ports_are_given_out_from_where_to_where_it_is_said(golden: Golden) -> None:
    run = run_with("--local_port_min=12000", "--local_port_max=12001")
    run.put(app("/a"), app("/b"))
    ports = [run.state.app(name).document["portDefinitions"][0]["port"] for name in ("/a", "/b")]  # type: ignore[union-attr]
    assert ports == [12000, 12001]
    with pytest.raises(Exception) as refused:
        run.put(app("/c"))
    assert str(refused.value) == golden


def test_so_many_versions_are_kept_in_memory_and_on_disk(tmp_path: Path) -> None:
    run = run_with("--zk_max_versions=3")
    store = SqliteStore(tmp_path / "state", max_versions=run.settings.max_versions)
    for n in range(5):
        store.save([a for a in run.put(app(instances=n), force=True) if type(a).__name__ == "Save"])
    kept = run.state.lasting
    assert [spec.instances for spec in kept.versions["/a"]] == [4, 3, 2]
    assert len(kept.roots) == 3
    loaded = store.load()
    assert (loaded.versions, loaded.roots) == (kept.versions, kept.roots)
    store.close()


def test_a_backup_has_all_versions_however_many_there_are(tmp_path: Path) -> None:
    run = run_with("--zk_max_versions=60")
    for n in range(55):
        run.put(app(instances=n), force=True)
    back_up(run.state.lasting, tmp_path / "backup")
    store = SqliteStore(tmp_path / "backup")
    assert len(store.load().versions["/a"]) == 55
    store.close()


def test_a_task_that_nobody_has_heard_of_has_a_time_of_its_own() -> None:
    run = run_with("--task_launch_confirm_timeout=10000", "--task_launch_timeout=60000")
    run.put(app("/a"), app("/b"))
    run.offer()
    (silent,), (staging,) = run.tasks("/a"), run.tasks("/b")
    run.do(status(staging, "TASK_STAGING"))
    assert only(run.do(Tick(), after_s=9), Kill) == []
    assert only(run.do(Tick(), after_s=2), Kill) == [Kill(silent, "S0")]
    assert only(run.do(Tick(), after_s=50), Kill) == [Kill(silent, "S0"), Kill(staging, "S0")], (
        "the first is asked for again"
    )


@pytest.mark.parametrize("argv", [[], ["--disable_suppress_offers"]])
def test_offers_go_on_while_nothing_waits_where_they_are_not_to_be_suppressed(argv: list[str]) -> None:
    run = run_with(*argv)
    run.put(app())
    actions = run.offer()
    (launch,) = only(actions, Launch)
    actions += run.do(status(launch.task_ids[0]))
    assert bool(only(actions, Suppress)) is not bool(argv)


@pytest.mark.parametrize("how", ["app", "pod", "group"])
@pytest.mark.parametrize("enforced", [False, True])
def test_new_top_level_groups_enforce_their_role_where_that_is_said(how: str, enforced: bool) -> None:
    run = run_with(*(["--new_group_enforce_role=top"] if enforced else []))
    if how == "app":
        run.put(app("/dev/deep/a"))
    elif how == "pod":
        run.do(PutPod(pod("/dev/deep/a", container()), "d"))
    else:
        run.do(PutGroup("/dev", {"groups": [{"id": "deep", "apps": [app("a")]}]}, "d"))
    spec = run.state.app("/dev/deep/a")
    assert spec is not None
    assert spec.document["role"] == ("dev" if enforced else "slave_public")
    groups = run.state.lasting.roots[0].groups
    assert {name: group.enforce_role for name, group in groups.items()} == {"/dev": enforced, "/dev/deep": False}
    if how == "app" and enforced:
        with pytest.raises(InvalidApp, match="role"):
            run.put(app("/dev/b", role="slave_public"))


def test_a_group_that_says_itself_whether_it_enforces_its_role_is_listened_to() -> None:
    run = run_with("--new_group_enforce_role=top")
    run.do(PutGroup("/dev", {"enforceRole": False}, "d"))
    run.put(app("/dev/a"))
    assert run.state.app("/dev/a").document["role"] == "slave_public"  # type: ignore[union-attr]
    assert run.state.lasting.roots[0].groups["/dev"].enforce_role is False, "also when an app is added to it"


def test_there_are_no_more_apps_than_may_be(golden: Golden) -> None:
    run = run_with("--max_apps=2")
    run.put(app("/a"), app("/b"))
    with pytest.raises(InvalidApp) as refused:
        run.put(app("/c"))
    assert str(refused.value) == golden
    run.put(app("/a", instances=3), force=True)
    run.do(PutPod(pod("/p"), "d"))
    run.do(RemoveApp("/b", "e"), after_s=1)
    run.put(app("/c"))
    assert sorted(spec.id for spec in run.state.apps()) == ["/a", "/c", "/p"]


def test_containers_on_a_bridge_join_the_network_that_is_named() -> None:
    run = run_with("--mesos_bridge_name=br-x")
    on_bridge = [{"mode": "container/bridge"}]
    run.put(app("/a", container={"type": "MESOS"}, networks=on_bridge), app("/b", ipAddress={"networkName": "br-x"}))
    run.do(PutPod({**pod("/p"), "networks": on_bridge}, "d"))
    (launch,) = only(run.offer(), Launch)
    infos = [info["container"]["network_infos"] for info in launch.task_infos]
    infos += [group.executor["container"]["network_infos"] for group in launch.groups]
    assert [info["name"] for (info,) in infos] == ["br-x"] * 3


def test_metrics_have_the_prefix_that_is_said() -> None:
    shown = Metrics(lambda: 0.0, "prod").document(Run().state)
    assert all(name.startswith("prod.") for kind in ("gauges", "counters", "meters", "timers") for name in shown[kind])


def test_the_log_has_the_level_that_is_said() -> None:
    before = logging.getLogger().level
    try:
        _set_logging(flags("--logging_level=WARN"))
        assert logging.getLogger().level == logging.WARNING
        _set_logging(flags())
        assert logging.getLogger().level == logging.WARNING, "not said, not changed"
    finally:
        logging.getLogger().setLevel(before)


def test_by_default_everything_is_as_it_is_without_flags_but_for_offers_that_are_held_for_a_moment() -> None:
    assert settings(checked(flags())) == Settings(rules=settings(flags()).rules, offer_window_s=0.2)
    assert configuration.http_settings(flags()) == configuration.HttpSettings()


@pytest.mark.parametrize("strict", [False, True])
def test_slips_of_marathons_are_kept_to_where_that_is_asked_for(strict: bool) -> None:
    given = flags(*(["--strict_compatibility"] if strict else []))
    assert configuration.http_settings(given).unknown_uri_status == (500 if strict else 404)
    run = run_with(*(["--strict_compatibility"] if strict else []))
    if not strict:
        run.put(app("/a", cmd="x"))
        return
    with pytest.raises(InvalidApp) as refused:
        run.put(app("/a", cmd="x"))
    assert [problem.path for problem in refused.value.problems] == ["/"]
