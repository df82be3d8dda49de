"""Carries out what `operations` decides: folders, checkpoints, messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from typing_extensions import assert_never

from mesos_gpu.agent.decisions import operations as deciding
from mesos_gpu.agent.decisions.operations import Operations
from mesos_gpu.agent.disk.checkpoints import AgentCheckpoints
from mesos_gpu.agent.disk.volumes import Volumes
from mesos_gpu.agent.model.operations import (
    Disagree,
    DiscardVolume,
    MakeVolume,
    OperationAction,
    OperationEvent,
    SaveHoldings,
    SendOperationStatus,
)
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document, ResourceDocument
from mesos_gpu.mesos.resources import Resources

log = logging.getLogger(__name__)


class StatusSender(Protocol):
    """The way to the master."""

    def operation_status(self, send: SendOperationStatus, agent_id: AgentId) -> None:
        """Send one status."""


class OperationEffects:
    """An agent's reservations and volumes, on disk before anyone hears of them. One event loop.

    `disagree` is called when the master counts on resources that are not here.
    """

    def __init__(
        self, operations: Operations, checkpoints: AgentCheckpoints, link: StatusSender, disagree: Callable[[], None]
    ) -> None:
        self.operations = operations
        self._checkpoints, self._link, self._disagree = checkpoints, link, disagree
        self.volumes = Volumes(checkpoints.work_dir)

    @property
    def kept(self) -> Resources:
        """Return dynamic reservations and persistent volumes."""
        return self.operations.kept

    def recover(self, kept: Sequence[ResourceDocument], operations: Sequence[Document]) -> None:
        """Take up what the last process left. Raises OSError."""
        deciding.restore(self.operations, kept, operations)
        self.volumes.settle(self.operations.volumes())

    def handle(self, event: OperationEvent, agent_id: AgentId, flags: Resources, at: Moment) -> None:
        """Take an event; see `operations.handle`. Raises OSError when it cannot be written down."""
        self.perform(deciding.handle(self.operations, event, agent_id, flags, at), agent_id)

    def retry(self, agent_id: AgentId, at: Moment) -> None:
        """Send what is due again."""
        self.perform(deciding.retry(self.operations, at), agent_id)

    def pause(self) -> None:
        """Send nothing until `resume`: there is no master."""
        deciding.pause(self.operations)

    def resume(self, agent_id: AgentId, at: Moment) -> None:
        """Send every outstanding status: a master (re-)appeared."""
        self.perform(deciding.resume(self.operations, at), agent_id)

    def perform(self, actions: Sequence[OperationAction], agent_id: AgentId) -> None:
        """Carry out actions in order. Raises OSError."""
        for action in actions:
            match action:
                case MakeVolume(role, volume_id):
                    self.volumes.make(role, volume_id)
                case DiscardVolume(role, volume_id):
                    self.volumes.discard(role, volume_id)
                case SaveHoldings(resources, operations):
                    self._checkpoints.save_holdings(resources, operations)
                case SendOperationStatus():
                    self._link.operation_status(action, agent_id)
                case Disagree(why):
                    log.warning("the master is mistaken about this agent's resources; registering again: %s", why)
                    self._disagree()
                case _:
                    assert_never(action)
