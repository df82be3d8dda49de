"""From a described cluster to flags: understood by our programs, known to Mesos', and what DC/OS' switches mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.blueprints import (
    Blueprint,
    cloudformation,
    dcos_config,
    environment,
    flags_of,
    marathon_words,
    program_name,
    read_blueprint,
    shell,
    unit,
    words,
)
from mesos_gpu.agent.flags import COMMAND_LINE as AGENT
from mesos_gpu.doctor.agent_checks import agent_findings
from mesos_gpu.doctor.facts import RunningAgent
from mesos_gpu.doctor.finding import Verdict
from mesos_gpu.errors import BadInput
from mesos_gpu.marathon.flags import COMMAND_LINE as MARATHON
from mesos_gpu.master.flags import COMMAND_LINE as MASTER
from mesos_gpu.mesos.flags import parse_flags
from tests.support.places import RECORDED

OURS = {"agent": AGENT, "master": MASTER, "marathon": MARATHON}
ZK = "zk://a:2181,b:2181,c:2181/mesos"

plans = st.builds(
    Blueprint,
    enable_gpu_isolation=st.booleans(),
    gpus_are_scarce=st.booleans(),
    make=st.sampled_from(["mesos-gpu", "mesos"]),
    master=st.sampled_from([None, "10.0.0.1:5050", ZK]),
    ip=st.sampled_from(["127.0.0.1", "10.0.0.7"]),
    images=st.booleans(),
    role=st.sampled_from([None, "ml"]),
    attributes=st.sampled_from([None, "rack:r1"]),
    cluster_name=st.sampled_from([None, "big one"]),
)


@given(plan=plans, program=st.sampled_from(sorted(OURS)))
def test_our_programs_understand_every_flag(plan: Blueprint, program: str) -> None:
    from dataclasses import replace

    flags = flags_of(program, replace(plan, make="mesos-gpu"))
    parse_flags(OURS[program], words(flags), {})
    assert set(flags) <= {flag.name for flag in OURS[program].service_flags}


@given(plan=plans)
def test_an_agent_with_gpus_passes_the_doctor(plan: Blueprint) -> None:
    flags = {name: str(value) for name, value in flags_of("agent", plan).items()}
    verdicts = {finding.verdict for finding in agent_findings(RunningAgent("http://a", flags, 1), 1)}
    assert (Verdict.PROBLEM in verdicts) == (not plan.enable_gpu_isolation)


# A real agent and master show the flags that have a value; these had none when they were recorded.
UNSET = {
    "agent": {"nvidia_gpu_devices", "resources", "executor_environment_variables"},
    "master": {"zk", "quorum", "ip", "cluster", "fair_sharing_excluded_resource_names", "min_allocatable_resources"},
}


@pytest.mark.parametrize(("program", "file"), [("agent", "agent-get-idle.json"), ("master", "master-get-after.json")])
def test_mesos_knows_every_flag(program: str, file: str) -> None:
    answers = json.loads((RECORDED / file).read_text())
    known = next(a["response"]["body"]["flags"] for a in answers if a["request"]["path"] in ("/flags", "/state"))
    plan = Blueprint(make="mesos", master=ZK, gpu_devices=("0",), role="ml", attributes="a:b", ip="10.0.0.1")
    assert set(flags_of(program, plan)) - UNSET[program] <= set(known)


def test_gpus_that_are_scarce_are_kept_by_master_and_marathon_alike() -> None:
    scarce, plenty = Blueprint(), Blueprint(gpus_are_scarce=False)
    assert flags_of("master", scarce)["filter_gpu_resources"] is True
    assert flags_of("marathon", scarce)["gpu_scheduling_behavior"] == "restricted"
    assert flags_of("master", plenty)["filter_gpu_resources"] is False
    assert flags_of("marathon", plenty)["gpu_scheduling_behavior"] == "unrestricted"


def test_without_gpu_isolation_nobody_hands_out_gpus() -> None:
    plan = Blueprint(enable_gpu_isolation=False)
    agent = flags_of("agent", plan)
    assert agent["gpu_driver"] == "none"
    assert "gpu" not in str(agent["isolation"])
    assert flags_of("marathon", plan)["enable_features"] == ""
    assert "gpu_scheduling_behavior" not in flags_of("marathon", plan)


def test_named_gpus_and_their_number_agree() -> None:
    flags = flags_of("agent", Blueprint(gpu_devices=("0", "2")))
    assert (flags["nvidia_gpu_devices"], flags["resources"]) == ("0,2", "gpus:2")


def test_several_masters_have_a_quorum_and_a_marathon_of_their_own_path() -> None:
    assert flags_of("master", Blueprint(make="mesos", master=ZK))["quorum"] == "2"
    assert flags_of("marathon", Blueprint(master=ZK))["zk"] == "zk://a:2181,b:2181,c:2181/marathon"


@pytest.mark.parametrize(
    "wrong",
    [
        {"ip": "somewhere"},
        {"make": "other"},
        {"gpu_devices": ("0", "0")},
        {"gpu_devices": ("0",), "enable_gpu_isolation": False},
        {"master": "zk://a:2181"},
    ],
)
def test_what_no_cluster_can_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        flags_of("agent", Blueprint(**wrong))


def test_a_config_of_dcos_is_read_as_it_is() -> None:
    document = {
        "bootstrap_url": "http://b",
        "master_discovery": "static",
        "master_list": ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
        "enable_gpu_isolation": "true",
        "gpus_are_scarce": "false",
        "resolvers": ["8.8.8.8"],
    }
    plan, problems = read_blueprint(document, Blueprint())
    assert problems == []
    assert plan.master == "zk://10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181/mesos"
    assert (plan.gpus_are_scarce, plan.enable_gpu_isolation, plan.quorum) == (False, True, 2)
    assert dcos_config(plan) == {"enable_gpu_isolation": "true", "gpus_are_scarce": "false"}


def test_everything_wrong_with_a_description_is_told_at_once() -> None:
    _, problems = read_blueprint({"gpus": 1, "images": "perhaps", "agents": 0, "role": []}, Blueprint())
    assert [problem.path for problem in problems] == ["/gpus", "/images", "/agents", "/role"]
    assert read_blueprint([], Blueprint())[1][0].path == "/"


def test_the_parameters_of_the_aws_templates_are_the_guides() -> None:
    found = {item["ParameterKey"]: item["ParameterValue"] for item in cloudformation(Blueprint(region="us-east-1"))}
    assert found == {
        "CustomAMI": "ami-5f5d1449",
        "MasterInstanceType": "m3.xlarge",
        "PrivateAgentInstanceType": "g2.2xlarge",
        "PublicAgentInstanceType": "g2.2xlarge",
    }
    mine = cloudformation(Blueprint(region="eu-west-1", ami="ami-1", instance_type="p3.2xlarge", agents=4))
    assert {"ParameterKey": "PrivateAgentInstanceCount", "ParameterValue": "4"} in mine
    with pytest.raises(BadInput, match="eu-west-1"):
        cloudformation(Blueprint(region="eu-west-1"))


def test_names_of_programs() -> None:
    assert program_name("agent", Blueprint()) == "mesos-gpu-agent"
    assert program_name("agent", Blueprint(make="mesos")) == "mesos-agent"
    assert program_name("marathon", Blueprint(make="mesos")) == "marathon"


def test_forms_quote_what_their_readers_would_take_apart() -> None:
    flags = {"min_allocatable_resources": "cpus:0.01|mem:32", "cluster": "50% $mine", "filter_gpu_resources": False}
    assert shell("mesos-master", words(flags)) == (
        "mesos-master \\\n  '--min_allocatable_resources=cpus:0.01|mem:32' \\\n  '--cluster=50% $mine' \\\n"
        "  --no-filter_gpu_resources\n"
    )
    assert environment("MESOS_", flags).splitlines() == [
        "MESOS_MIN_ALLOCATABLE_RESOURCES='cpus:0.01|mem:32'",
        "MESOS_CLUSTER='50% $mine'",
        "MESOS_FILTER_GPU_RESOURCES=false",
    ]
    text = unit("mesos-agent", "/usr/bin/mesos-agent", words(flags), keeps_containers=True)
    assert '"--cluster=50%% $$mine"' in text
    assert "KillMode=process" in text
    assert "KillMode" not in unit("m", "/m", [], keeps_containers=False)
    assert marathon_words({"master": "m:5050", "ha": False}) == ["--master", "m:5050", "--disable_ha"]
