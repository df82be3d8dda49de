"""What carries out a run of a job."""

from __future__ import annotations

import pytest

from mesos_gpu.marathon.definitions.app import AppRules
from mesos_gpu.marathon.model import job
from mesos_gpu.mesos.ids import Role

V0 = "1970-01-01T00:00:00.000Z"


def test_a_job_is_read_once_for_all_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    read, read_app = list[object](), job.read_app
    monkeypatch.setattr(job, "read_app", lambda *given: read.append(given) or read_app(*given))
    document = job.read_job({"id": "j", "run": {"cmd": "true"}}, AppRules()).definition
    read.clear()
    first, second = (job.run_spec(document, run_id, V0, AppRules()) for run_id in ("a", "b"))
    assert (first.id, second.id, len(read)) == (job.run_spec_id("j", "a"), job.run_spec_id("j", "b"), 0)
    other = job.run_spec(document, "a", V0, AppRules(mesos_role=Role("ml")))
    assert (first.document["role"], other.document["role"]) == ("*", "ml")
    again = job.run_spec(dict(document), "a", V0, AppRules(mesos_role=Role("ml")))
    assert (again, len(read)) == (other, 2)


def test_many_jobs_are_not_all_kept() -> None:
    for _ in range(2 * job._READ_MOST):
        job.read_job({"id": "j", "run": {"cmd": "true"}}, AppRules())
    assert len(job._READ) <= job._READ_MOST
