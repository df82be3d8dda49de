"""A program that takes its time to write a checkpoint at SIGTERM, and the ways in which people start one."""

from __future__ import annotations

from pathlib import Path

_TRAINER = """\
import os, pathlib, signal, sys, time
os.chdir(*sys.argv[1:] or ["."])
def save(number, frame):
    with open("terms", "a") as terms:
        terms.write("x")
    end = time.monotonic() + {work_s}
    while time.monotonic() < end:
        time.sleep(0.05)
    pathlib.Path("checkpoint.new").write_text("complete")
    pathlib.Path("checkpoint.new").rename("checkpoint")
    sys.exit(7)
signal.signal(signal.SIGTERM, save)
pathlib.Path("up").touch()
while True:
    time.sleep(0.05)
"""

FORMS = {
    "exec": "exec python3 -I {program}",
    "plain": "python3 -I {program}; echo over",
    "cd": "cd . && python3 -I {program}; exit $?",
    "pipe": "python3 -I {program} | tee log",
    "bash": "bash -c 'python3 -I {program}; echo over'",
    "background": "python3 -I {program} & wait",
}
"""Commands by a name for each form. Shells that replace themselves with the last command of a line do not here."""


def command(form: str, program: str = "train.py") -> str:
    """Return the command that runs `program` (a path, and the folder to work in unless that is the sandbox)."""
    return FORMS[form].format(program=program)


def write_trainer(folder: Path, work_s: float) -> None:
    """Write `train.py`: after SIGTERM it works for `work_s`, writes `checkpoint` and exits with status 7."""
    (folder / "train.py").write_text(trainer(work_s))


def trainer(work_s: float) -> str:
    """Return the program."""
    return _TRAINER.format(work_s=work_s)
