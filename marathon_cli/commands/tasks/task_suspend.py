"""`mesos-gpu task suspend, resume`: a task gives its GPUs up, with all that it has on them, and has them again."""

from __future__ import annotations

from typing import Any

import click

from marathon_cli.commands.tasks.task_exec import container_of, find_task
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.local_agent import local_agent
from marathon_cli.console.options import output_options, target_options
from mesos_gpu.errors import Refused

_agent_option = click.option(
    "--agent",
    "url",
    metavar="URL",
    help="The agent to ask; default: that of TASK, as the master names it.",
)


@click.command()
@click.argument("task", metavar="TASK")
@_agent_option
@output_options()
@target_options
@pass_console
def suspend(console: Console, task: str, url: str | None) -> None:
    """Put away what TASK has on its GPUs, and let others have those, until it is resumed.

    Its memory on GPUs is copied to the machine's; it stands still at its next CUDA call, is not ended, and stays
    TASK_RUNNING. It needs NVIDIA's driver 570 or newer, or simulated GPUs. The agent that TASK runs on does it,
    for those on its own machine.
    """
    _do(console, task, url, "suspend", "Suspended {}: its GPUs are free for others; `mesos-gpu task resume` ends that")


@click.command()
@click.argument("task", metavar="TASK")
@_agent_option
@output_options()
@target_options
@pass_console
def resume(console: Console, task: str, url: str | None) -> None:
    """Give a suspended TASK GPUs again, and let it go on where it stood.

    It has as many as before, of the same model, and maybe others. When other tasks have them, it stays suspended.
    """
    _do(console, task, url, "resume", "Resumed {}")


def _do(console: Console, task: str, url: str | None, what: str, sentence: str) -> None:
    from mesos_gpu.doors.common.agent import SUSPENDING_S, Book

    agent, found = find_task(console, task)
    container = container_of(found)
    while "parent" in container:
        container = container["parent"]
    suspended: list[Any]
    if url is not None:
        suspended = Book(local_agent(console, url)).suspending(what, str(container["value"]))
    else:
        answer = agent.ask("POST", f"/gpus/{what}", body={"container_id": container["value"]}, read_s=SUSPENDING_S)
        if not answer.ok:
            said = answer.text.strip() or answer.reason
            if answer.status_code == 404 and not answer.text.strip():
                said = f"the agent {agent.url} is none of this project's: it suspends nothing"
            elif said.startswith("Only this machine"):
                said += f" {found.id} runs on the agent {agent.url}: use this command there."
            raise Refused(said, status=answer.status_code)
        suspended = agent.read(answer)
    console.tell(sentence.format(found.id), {"task": found.id, "suspended": suspended}, names=[found.id])
