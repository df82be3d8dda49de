"""Builds a Debian package into dist/, from the wheels there: .venv/bin/python tools/make_deb.py

The package carries an environment of its own (/usr/lib/mesos-gpu), made for the python3 of the Debian that it is built
on, and needs nothing of Debian's but that Python, an OCI runtime and conmon. Only dpkg-deb is needed to build it.
Source of what lies where and when scripts run: Debian policy, chapters 6, 9 and 10; systemd.unit(5).
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = "/usr/bin/python3"
HOME = Path("/usr/lib/mesos-gpu")
PROGRAMS = re.compile(r"(mesos-gpu|cgpu-smi|nvidia-docker).*")
SERVICES = ("mesos-gpu-agent", "mesos-gpu-marathon", "mesos-gpu-master")

CONTROL = """\
Package: mesos-gpu
Version: {version}
Architecture: {architecture}
Maintainer: the mesos-gpu authors <mesos-gpu@localhost>
Section: admin
Priority: optional
Installed-Size: {kib}
Depends: python3 (>= {python}), python3 (<< {next_python}~), crun | runc, conmon, tini | catatonit, libc6
Recommends: containernetworking-plugins, iptables, iproute2
Description: GPUs on Apache Mesos and Marathon
 A Mesos master and agent that hand out whole NVIDIA GPUs, a Marathon-compatible
 scheduler, a command line for all of them, and Mesos in a box on one machine.
 .
 The services mesos-gpu-master, mesos-gpu-agent and mesos-gpu-marathon are
 configured in /etc/mesos-gpu and start once they are enabled.
"""
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # Those that ran go on with the new version; containers live through a restart of their agent.
    for service in {services}; do systemctl try-restart "$service" || :; done
fi
"""
PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    # The agent says goodbye and ends its containers, which a plain stop would leave running.
    systemctl kill --kill-who=main --signal=SIGUSR1 mesos-gpu-agent 2>/dev/null || :
    for service in {services}; do systemctl disable --now --quiet "$service" || :; done
fi
"""
POSTRM = """\
#!/bin/sh
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload || :
if [ "$1" = purge ]; then
    rm -rf /var/lib/mesos-gpu /etc/mesos-gpu /usr/lib/mesos-gpu
fi
"""


def main(dist: Path = ROOT / "dist") -> None:
    """Build it; the wheels of this version have to lie there."""
    wheel = next(dist.glob("mesos_gpu-*.whl"), None)
    if wheel is None:
        sys.exit(f"looked for mesos_gpu-*.whl in {dist} and found none; ./run wheels makes it")
    version = wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory() as scratch:
        staged = Path(scratch) / "mesos-gpu"
        staged.mkdir(mode=0o755)
        _environment(staged, dist, version)
        _shared(staged)
        # What comes before a version is older than it: dpkg has a sign for that (deb-version(7)).
        version = version.replace(".dev", "~dev")
        _control(staged, version)
        architecture = _said("dpkg", "--print-architecture")
        package = dist / f"mesos-gpu_{version}_{architecture}.deb"
        # zstd takes a fifth of the time of xz and is known to dpkg since Debian 12.
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zzstd", "--build", staged, package], check=True, stdout=sys.stderr
        )
    print(f"{package}  {package.stat().st_size // 1024} KiB")


def _environment(staged: Path, dist: Path, version: str) -> None:
    home = staged / HOME.relative_to("/")
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", home], check=True)
    pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python3", "install", "-q", "--no-compile"]
    # The package is for this kind of machine anyway.
    extra = "[codec]" if list(dist.glob("mesos_gpu_codec-*.whl")) else ""
    pip += ["--disable-pip-version-check", "--find-links", dist, f"mesos-gpu{extra}=={version}"]
    subprocess.run(pip, check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    for script in (home / "bin").iterdir():
        if script.is_symlink():
            continue
        if script.name.lower().startswith("activate"):
            script.unlink()
            continue
        script.write_text(script.read_text().replace(str(home), str(HOME)))
    settings = home / "pyvenv.cfg"
    lines = settings.read_text().splitlines()
    settings.write_text("".join(f"{line}\n" for line in lines if not line.startswith("command")))
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(
        home / "lib", quiet=1, workers=0, stripdir=str(staged), prependdir="/", invalidation_mode=unchecked
    ):
        sys.exit("a module of the package does not compile")


def _shared(staged: Path) -> None:
    home = staged / HOME.relative_to("/")
    programs = staged / "usr" / "bin"
    programs.mkdir(parents=True)
    for script in sorted((home / "bin").iterdir()):
        if PROGRAMS.fullmatch(script.name):
            (programs / script.name).symlink_to(HOME / "bin" / script.name)
    share = home / "share"
    for kept in ("man/man1", "man/man8", "bash-completion/completions", "fish/vendor_completions.d"):
        shutil.copytree(share / kept, staged / "usr" / "share" / kept)
    shutil.copytree(share / "zsh" / "site-functions", staged / "usr" / "share" / "zsh" / "vendor-completions")
    units = staged / "lib" / "systemd" / "system"
    shutil.copytree(share / "mesos-gpu" / "systemd", units)
    shutil.copytree(share / "mesos-gpu" / "etc", staged / "etc" / "mesos-gpu")
    documents = staged / "usr" / "share" / "doc" / "mesos-gpu"
    shutil.copytree(share / "mesos-gpu" / "examples", documents / "examples")
    shutil.copy(ROOT / "CHANGELOG.md", documents)
    (documents / "copyright").write_text(
        (ROOT / "NOTICE").read_text() + "\nOn Debian: /usr/share/common-licenses/Apache-2.0\n"
    )


def _control(staged: Path, version: str) -> None:
    folder = staged / "DEBIAN"
    folder.mkdir()
    major, minor = map(int, _said(PYTHON, "-c", "import sys; print(*sys.version_info[:2])").split())
    (folder / "control").write_text(
        CONTROL.format(
            version=version,
            architecture=_said("dpkg", "--print-architecture"),
            kib=sum(path.lstat().st_size for path in staged.rglob("*") if not path.is_dir()) // 1024,
            python=f"{major}.{minor}",
            next_python=f"{major}.{minor + 1}",
        )
    )
    (folder / "conffiles").write_text(
        "".join(f"/etc/mesos-gpu/{path.name}\n" for path in sorted((staged / "etc/mesos-gpu").iterdir()))
    )
    for name, script in (("postinst", POSTINST), ("prerm", PRERM), ("postrm", POSTRM)):
        path = folder / name
        path.write_text(script.replace("{services}", " ".join(SERVICES)))
        path.chmod(0o755)


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
