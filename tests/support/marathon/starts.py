"""Which tasks a Marathon program starts on the offers a test makes, and what becomes of them."""

from __future__ import annotations

from tests.fakes.scheduler_master import SchedulerMaster
from tests.support.marathon.builders import offer, status


class Starts:
    """Offers two GPUs at a time; `ids` are all tasks ever started, in order."""

    def __init__(self, master: SchedulerMaster) -> None:
        self._master = master
        self.ids: list[str] = []

    async def launch(self) -> list[str]:
        """Make an offer; return the tasks that the one LAUNCH on it starts."""
        self._master.offer(offer(f"O{len(self.ids)}", gpus=2))
        (operation,) = (await self._master.next_call("ACCEPT"))["accept"]["operations"]
        ids = [info["task_id"]["value"] for info in operation["launch"]["task_infos"]]
        self.ids.extend(ids)
        return ids

    async def run(self, *task_ids: str, state: str = "TASK_RUNNING") -> None:
        """Tell the state of tasks, one after the other, and await each acknowledgement."""
        for task_id in task_ids:
            self._master.status(status(task_id, state).status)
            await self._master.next_call("ACKNOWLEDGE")
