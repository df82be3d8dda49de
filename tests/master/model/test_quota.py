from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.master.model.quota import (
    Quota,
    config_problem,
    missing,
    overcommit_problem,
    quota_of,
    request_problem,
    requested,
    shrink,
    status_of,
    update_problem,
)
from mesos_gpu.mesos.resources import Resources

R = Resources.parse
CLUSTER = {"cpus": 2_000, "disk": 252_899_000, "gpus": 4_000, "mem": 23_081_000}


def config(role: str = "dev", guarantees: Any = None, limits: Any = None) -> dict[str, Any]:
    return {
        "role": role,
        "guarantees": {name: {"value": value} for name, value in (guarantees or {}).items()},
        "limits": {name: {"value": value} for name, value in (limits or {}).items()},
    }


def test_resources_are_shrunk_to_what_fits() -> None:
    resources = R("cpus:2;gpus:4;mem:100")
    assert Resources(shrink(resources, {"cpus": 500, "gpus": 0}, absent=None)) == R("cpus:0.5;mem:100")
    assert Resources(shrink(resources, {"cpus": 500}, absent=0)) == R("cpus:0.5")
    assert Resources(shrink(resources, {"cpus": -500}, absent=None)) == R("gpus:4;mem:100")
    assert missing({"cpus": 2_000, "gpus": 1_000}, {"cpus": 2_500}) == {"gpus": 1_000}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (config("a b"), "Invalid 'QuotaConfig.role': Role component 'a b' is invalid"),
        (
            config(guarantees={"cpus": -1}),
            "Invalid guarantee configuration {'cpus': -1}: Negative values not supported",
        ),
        (config(limits={"cpus": float("inf")}), "Invalid limit configuration {'cpus': inf}: Infinite values"),
        (config(limits={"cpus": float("nan")}), "NaN not supported"),
        (config(limits={"mem": 2e12}), "values greater than 1 exabyte (1099511627776) are not supported"),
        (config(guarantees={"gpus": 2e12}), "values greater than 1 trillion (1000000000000) are not supported"),
        (
            config(guarantees={"gpus": 2}, limits={"gpus": 1}),
            "'QuotaConfig.guarantees' { gpus: 2 } is not contained within the 'QuotaConfig.limits' { gpus: 1 }",
        ),
    ],
)
def test_a_config_that_cannot_be_is_refused_in_mesos_words(given: dict[str, Any], words: str) -> None:
    found = config_problem(given)
    assert found is not None
    assert words in found


def test_guarantees_beyond_the_cluster_need_force() -> None:
    asked = [config(guarantees={"cpus": 100}, limits={"cpus": 200})]
    assert update_problem(asked, {}, CLUSTER, force=False) == (
        "Invalid QuotaConfig: total quota guarantees 'cpus:100' exceed cluster capacity "
        "'cpus:2; disk:252899; gpus:4; mem:23081' (use 'force' flag to bypass this check)"
    )
    assert update_problem(asked, {}, CLUSTER, force=True) is None
    others = {"web": Quota({"gpus": 3_000}, {})}
    assert update_problem([config(guarantees={"gpus": 1})], others, CLUSTER, force=False) is None
    assert "gpus:5" in str(update_problem([config(guarantees={"gpus": 2})], others, CLUSTER, force=False))


def test_nested_and_unlisted_roles_have_no_quota() -> None:
    nested = update_problem([config("a/b")], {}, CLUSTER, force=False)
    assert nested == "Updating quota on nested role 'a/b' is not supported yet"
    unlisted = update_problem([config("dev")], {}, CLUSTER, force=False, whitelist=frozenset({"web"}))
    assert unlisted == "Invalid QuotaConfig: 'dev' is not on the roles whitelist"


def scalar(name: str, value: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}, **more}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"guarantee": [scalar("cpus", 1)]}, "QuotaInfo must specify a role"),
        ({"role": "/a", "guarantee": [scalar("cpus", 1)]}, "QuotaInfo with invalid role: Role '/a' cannot start"),
        ({"role": "dev"}, "QuotaInfo with empty 'guarantee'"),
        ({"role": "dev", "guarantee": [scalar("cpus", -1)]}, "QuotaInfo with invalid resource: "),
        ({"role": "dev", "guarantee": [scalar("cpus", 1, role="ml")]}, "must not contain any ReservationInfo"),
        ({"role": "dev", "guarantee": [scalar("disk", 1, disk={})]}, "must not contain DiskInfo"),
        ({"role": "dev", "guarantee": [scalar("cpus", 1, revocable={})]}, "must not contain RevocableInfo"),
        ({"role": "dev", "guarantee": R("ports:[1-2]").to_json()}, "must not include non-scalar resources"),
        ({"role": "dev", "guarantee": [scalar("cpus", 1)] * 2}, "contains duplicate resource name 'cpus'"),
        ({"role": "web", "guarantee": [scalar("cpus", 1)]}, "Cannot set quota for role 'web' which already has quota"),
        ({"role": "a/b", "guarantee": [scalar("cpus", 1)]}, "Setting quota on nested role 'a/b' is not supported yet"),
    ],
)
def test_a_request_that_cannot_be_is_refused_in_mesos_words(request_: dict[str, Any], words: str) -> None:
    found = request_problem(request_, {"web": Quota({"cpus": 1}, {})})
    assert found is not None
    assert words in found


def test_a_request_guarantees_and_limits_the_same() -> None:
    asked = {"role": "dev", "guarantee": [scalar("gpus", 2)]}
    assert request_problem(asked, {}) is None
    assert requested(asked) == Quota({"gpus": 2_000}, {"gpus": 2_000})
    assert overcommit_problem({"dev": requested(asked)}, CLUSTER) is None
    assert overcommit_problem({"dev": Quota({"gpus": 9_000}, {})}, CLUSTER) == (
        "Quota guarantees overcommit the cluster (use 'force' to bypass this check): Total quota guarantees 'gpus:9' "
        "exceed cluster capacity 'cpus:2; disk:252899; gpus:4; mem:23081'"
    )


def test_the_status_says_it_in_both_forms() -> None:
    given = config(guarantees={"cpus": 0.5}, limits={"cpus": 1, "gpus": 1})
    assert status_of({"dev": quota_of(given)}) == {
        "infos": [{"role": "dev", "guarantee": [scalar("cpus", 0.5)]}],
        "configs": [config(guarantees={"cpus": 0.5}, limits={"cpus": 1.0, "gpus": 1.0})],
    }
    assert status_of({}) == {}
    assert quota_of(config(guarantees={"cpus": 0})).default
