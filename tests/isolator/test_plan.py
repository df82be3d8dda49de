"""Changes of a plan to an OCI runtime specification."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput, ContainerError
from mesos_gpu.gpu.device import DeviceNode
from mesos_gpu.isolator.access import BASE_RULES, rule_for
from mesos_gpu.isolator.plan import DEFAULT_PATH, BindMount, DeviceRule, Hook, LaunchPlan, device_rules

NODE = DeviceNode("/dev/nvidia1", 195, 1)
PLAN = LaunchPlan(
    nodes=(NODE,),
    rules=(rule_for(NODE),),
    mounts=(BindMount("/volumes/1", "/usr/local/nvidia"),),
    environment={"NVIDIA_VISIBLE_DEVICES": "GPU-1"},
    search_paths={"PATH": ("/usr/local/nvidia/bin",)},
    hooks=(Hook("createRuntime", "/bin/hook", ("hook", "on"), ("A=1",), 5),),
)
SPEC: dict[str, Any] = {
    "ociVersion": "1.0.2",
    "process": {"args": ["sh"], "env": ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"]},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "hooks": {"createRuntime": [{"path": "/bin/other"}], "poststop": [{"path": "/bin/last"}]},
    "linux": {
        "devices": [{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229}, {"path": "/dev/nvidia1"}],
        "resources": {"memory": {"limit": 1}, "devices": device_rules(BASE_RULES)},
    },
}
NAMES = st.text(st.characters(exclude_characters="=:\0", exclude_categories=["Cs"]), min_size=1, max_size=3)


def test_a_plan_is_added_and_the_rest_of_the_specification_is_kept() -> None:
    before = copy.deepcopy(SPEC)
    changed = PLAN.to_oci(SPEC)
    assert before == SPEC, "the argument is not modified"
    assert json.loads(json.dumps(changed)) == changed
    assert changed["process"] == {
        "args": ["sh"],
        "env": ["PATH=/bin:/usr/local/nvidia/bin", "NVIDIA_VISIBLE_DEVICES=GPU-1"],
    }
    assert changed["mounts"] == [
        *SPEC["mounts"],
        {
            "destination": "/usr/local/nvidia",
            "type": "bind",
            "source": "/volumes/1",
            "options": ["rbind", "ro", "nosuid", "nodev"],
        },
    ]
    hook = {"path": "/bin/hook", "args": ["hook", "on"], "env": ["A=1"], "timeout": 5}
    assert changed["hooks"] == {**SPEC["hooks"], "createRuntime": [{"path": "/bin/other"}, hook]}
    node = {"path": "/dev/nvidia1", "type": "c", "major": 195, "minor": 1, "fileMode": 0o666, "uid": 0, "gid": 0}
    assert changed["linux"]["devices"] == [SPEC["linux"]["devices"][0], node]
    rule = {"allow": True, "type": "c", "major": 195, "minor": 1, "access": "rwm"}
    assert changed["linux"]["resources"] == {"memory": {"limit": 1}, "devices": [*device_rules(BASE_RULES), rule]}


@pytest.mark.parametrize("empty", [{}, {"process": None, "linux": {"resources": None}, "mounts": None, "hooks": None}])
def test_a_specification_without_device_rules_denies_all_others(empty: dict[str, Any]) -> None:
    changed = PLAN.to_oci(empty)
    assert changed["linux"]["resources"]["devices"] == device_rules(PLAN.rules)
    assert changed["process"]["env"] == [
        "NVIDIA_VISIBLE_DEVICES=GPU-1",
        f"PATH={DEFAULT_PATH}:/usr/local/nvidia/bin",
    ]


def test_a_wildcard_rule_names_no_number() -> None:
    assert device_rules([DeviceRule("c", None, None, "m"), DeviceRule("c", 136, None, "rwm")]) == [
        {"allow": False, "access": "rwm"},
        {"allow": True, "type": "c", "access": "m"},
        {"allow": True, "type": "c", "major": 136, "access": "rwm"},
    ]


def test_a_node_outside_dev_is_refused() -> None:
    with pytest.raises(ContainerError):
        LaunchPlan(nodes=(DeviceNode("/etc/nvidia0", 195, 0),)).to_oci({})


WRONG = st.one_of(st.integers(1), st.text(min_size=1, max_size=2), st.just([1]), st.just({"a": 1}), st.just(True))
PLACES: list[tuple[tuple[str, ...], type]] = [
    ((), dict),
    *((("process",), dict), (("process", "env"), list), (("mounts",), list), (("hooks",), dict)),
    *((("hooks", "createRuntime"), list), (("linux",), dict), (("linux", "devices"), list)),
    *((("linux", "resources"), dict), (("linux", "resources", "devices"), list)),
]


@pytest.mark.parametrize(("place", "kind"), PLACES)
def test_an_invalid_specification_is_refused(place: tuple[str, ...], kind: type) -> None:
    @given(WRONG.filter(lambda value: not isinstance(value, kind)))
    def refused(value: object) -> None:
        spec: Any = value
        for name in reversed(place):
            spec = {name: spec}
        with pytest.raises(BadInput):
            PLAN.to_oci(spec)

    refused()


def test_search_paths_are_appended_once() -> None:
    plan = LaunchPlan(search_paths={"PATH": ("/bin", "/nvidia/bin"), "LD_LIBRARY_PATH": ("/nvidia/lib",)})
    assert plan.to_oci({"process": {"env": ["PATH=/usr/bin:/bin"]}})["process"]["env"] == [
        "PATH=/usr/bin:/bin:/nvidia/bin",
        "LD_LIBRARY_PATH=/nvidia/lib",
    ]


@given(
    st.dictionaries(NAMES, NAMES), st.dictionaries(NAMES, NAMES), st.dictionaries(NAMES, st.lists(NAMES, max_size=3))
)
def test_what_a_task_sets_is_kept_but_where_the_plan_sets_it(
    task: dict[str, str], sets: dict[str, str], searches: dict[str, list[str]]
) -> None:
    plan = LaunchPlan(environment=sets, search_paths={name: tuple(paths) for name, paths in searches.items()})
    changed = plan.to_oci({"process": {"env": [f"{name}={value}" for name, value in task.items()]}})
    found = dict(entry.split("=") for entry in changed["process"]["env"])
    for name, value in {**task, **sets}.items():
        entries = found[name].split(":")
        assert entries[0] == value
        assert len(entries) == len(set(entries))
