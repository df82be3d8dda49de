"""Marathon's words for why an offer was not used. Pure; imports nothing, for the command line reads it, too.

Source: Marathon mesos/NoOfferMatchReason.scala.
"""

from __future__ import annotations

from enum import Enum


class Reason(str, Enum):
    """Why an offer was not used, in the order in which /v2/queue counts them: one reason per offer, the first."""

    UNFULFILLED_ROLE = "UnfulfilledRole"
    UNFULFILLED_CONSTRAINT = "UnfulfilledConstraint"
    NO_CORRESPONDING_RESERVATION = "NoCorrespondingReservationFound"
    AGENT_MAINTENANCE = "AgentMaintenance"
    INSUFFICIENT_CPUS = "InsufficientCpus"
    INSUFFICIENT_MEMORY = "InsufficientMemory"
    INSUFFICIENT_DISK = "InsufficientDisk"
    INSUFFICIENT_GPUS = "InsufficientGpus"
    INSUFFICIENT_PORTS = "InsufficientPorts"
    DECLINED_SCARCE_RESOURCES = "DeclinedScarceResources"
