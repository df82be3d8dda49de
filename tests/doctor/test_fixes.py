"""What doctor says of an OCI runtime and a kernel that are older than published fixes."""

from __future__ import annotations

import pytest

from mesos_gpu.doctor.facts import Facts
from mesos_gpu.doctor.finding import Verdict
from mesos_gpu.doctor.fixes import fix_findings
from tests.support.golden import Golden


def said(kernel: str = "6.18.1", crun: str | None = None, runc: str | None = None) -> list[tuple[str, str]]:
    facts = Facts(kernel=kernel, runtime_versions={"crun": crun, "runc": runc})
    return [(finding.verdict.value, finding.found) for finding in fix_findings(facts)]


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        ("runc version 1.0.0-rc6", ["2019-5736", "2022-29162", "2024-21626", "2025-31133"]),
        ("runc version 1.1.5+ds1", ["2024-21626", "2025-31133"]),
        ("runc version 1.1.12", ["2025-31133"]),
        ("runc version 1.2.7", ["2025-31133"]),
        ("runc version 1.2.8", []),
        ("runc version 1.3.2", ["2025-31133"]),
        ("runc version 1.3.3", []),
        ("runc version 1.4.0", []),
    ],
)
def test_runc_is_held_to_the_series_that_it_is_of(version: str, lacks: list[str]) -> None:
    verdict, found = said(runc=version)[0]
    assert verdict == (Verdict.WARNING if lacks else Verdict.OK).value
    assert [cve for cve in ("2019-5736", "2022-29162", "2024-21626", "2025-31133") if cve in found] == lacks


def test_the_runtime_that_an_agent_takes_is_looked_at(golden: Golden) -> None:
    assert said(crun="crun version 1.8.1", runc="runc version 1.1.5")[0] == ("ok", golden)
    assert "CVE-2022-27650" in said(crun="crun version 1.4.3")[0][1]
    assert len(said(crun="crun version unknown")) == 1


@pytest.mark.parametrize(
    ("release", "verdict", "lacks"),
    [
        ("6.18.44-fc-v657", "ok", []),
        ("6.1.76", "ok", []),
        ("6.1.75", "warning", ["CVE-2024-1086"]),
        ("5.16.10", "warning", ["CVE-2022-0847", "CVE-2024-1086"]),
        ("5.10.96", "warning", ["CVE-2022-0492", "CVE-2022-0847", "CVE-2024-1086"]),
        ("5.15.0-91-generic", "note", ["CVE-2022-0492", "CVE-2022-0185", "CVE-2022-0847", "CVE-2024-1086"]),
        ("4.19.320", "warning", ["openat2"]),
    ],
)
def test_a_kernel_is_held_to_its_series(release: str, verdict: str, lacks: list[str]) -> None:
    (found,) = said(release)
    assert found[0] == verdict
    names = ["CVE-2022-0492", "CVE-2022-0185", "CVE-2022-0847", "CVE-2024-1086", "openat2"]
    assert [name for name in names if name in found[1]] == lacks


def test_nothing_is_said_of_what_is_not_known() -> None:
    assert said("") == []
