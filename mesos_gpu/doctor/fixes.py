"""Whether the OCI runtime and the kernel are older than fixes of published ways out of containers. Pure.

Numbers are those of the projects' own releases: runc's and crun's advisories on GitHub, and the stable series of Linux
in which a fix appeared. Distributions put fixes into older numbers, which is why nothing here is more than a warning.
crun was tried by its authors with what broke runc in 2025, and held (containers/crun, issue 1906).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mesos_gpu.doctor.facts import Facts
from mesos_gpu.doctor.finding import Finding, Verdict

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fix:
    """One hole: first in `since`; closed in later releases of each series of `fixed`, and wholly from `closed` on."""

    name: str
    closed: Version
    fixed: Mapping[Version, int]
    since: Version = (0,)

    def lacks(self, version: Version) -> bool:
        """Return whether a release has the hole."""
        if version < self.since or version >= self.closed:
            return False
        return version[:2] not in self.fixed or version < (*version[:2], self.fixed[version[:2]])


RUNTIMES: Mapping[str, Sequence[Fix]] = {
    "crun": (Fix("CVE-2022-27650", (1, 4, 4), {}),),
    "runc": (
        Fix("CVE-2019-5736", (1, 0, 0), {}),
        Fix("CVE-2022-29162", (1, 1, 2), {}),
        Fix("CVE-2024-21626", (1, 1, 12), {}),
        Fix("CVE-2025-31133, -52565 and -52881", (1, 4), {(1, 2): 8, (1, 3): 3}),
    ),
}
KERNEL: Sequence[Fix] = (
    Fix(
        "CVE-2022-0492 (cgroups' release_agent)",
        (5, 17),
        {(4, 9): 301, (4, 14): 266, (4, 19): 229, (5, 4): 177, (5, 10): 97, (5, 15): 20, (5, 16): 6},
    ),
    Fix("CVE-2022-0185 (fs_context)", (5, 17), {(5, 4): 173, (5, 10): 93, (5, 15): 16, (5, 16): 2}, (5, 1)),
    Fix("CVE-2022-0847 (dirty pipe)", (5, 17), {(5, 10): 102, (5, 15): 25, (5, 16): 11}, (5, 8)),
    Fix(
        "CVE-2024-1086 (nf_tables)",
        (6, 8),
        {(4, 19): 307, (5, 4): 269, (5, 10): 210, (5, 15): 149, (6, 1): 76, (6, 6): 15, (6, 7): 3},
        (3, 15),
    ),
)
RACELESS = (5, 6)
"""Linux that has openat2(2), by which paths that tasks can change are opened."""


def fix_findings(facts: Facts) -> Iterator[Finding]:
    """Yield what is said of the runtime that an agent takes, and of the kernel."""
    name = next((name for name in ("crun", "runc") if facts.runtime_versions.get(name)), None)
    if name is not None:
        yield from _runtime(name, str(facts.runtime_versions[name]))
    if (kernel := read_version(facts.kernel)) is not None:
        yield from _kernel(facts.kernel, kernel)


def read_version(text: str) -> Version | None:
    """Return the numbers of the first release that a text names, such as 1.1.5: three, or two and 0.

    A candidate (-rc) is older than what it becomes.
    """
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?(-rc)?", text)
    return None if found is None else (int(found[1]), int(found[2]), -1 if found[4] else int(found[3] or 0))


def _runtime(name: str, says: str) -> Iterator[Finding]:
    version = read_version(says)
    missing = [fix.name for fix in RUNTIMES[name] if version is not None and fix.lacks(version)]
    if missing:
        newest = {"crun": "1.4.4", "runc": "1.2.8, 1.3.3 or 1.4"}[name]
        mend = f"{name} {newest} has them all; a distribution may have put them into this one: its changelog tells"
        found = f"{says} is older than the fixes of {'; '.join(missing)}"
        yield Finding("fixes of the runtime", Verdict.WARNING, found, mend)
    elif version is not None:
        yield Finding(
            "fixes of the runtime", Verdict.OK, f"{name} {'.'.join(map(str, version))} has the published ones"
        )


def _kernel(release: str, version: Version) -> Iterator[Finding]:
    missing = [fix.name for fix in KERNEL if fix.lacks(version)]
    if version < RACELESS:
        missing.append("openat2, so that the agent opens tasks' paths folder by folder")
    if not missing:
        yield Finding("fixes of the kernel", Verdict.OK, f"Linux {release} has the published ones")
        return
    # 5.15.0-91-generic: the number stays, and what is in it only the distribution's changelog tells.
    theirs = version[2] == 0 and "-" in release
    yield Finding(
        "fixes of the kernel",
        Verdict.NOTE if theirs else Verdict.WARNING,
        f"Linux {release} is older than {'; '.join(missing)}" + (", by its number" if theirs else ""),
        "its changelog tells whether your distribution has put them in"
        if theirs
        else "use a newer release of its series",
    )
