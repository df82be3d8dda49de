"""Gangs: instances whose tasks start together, know of one another, and end together."""

from __future__ import annotations

from msgspec import Struct


class Membership(Struct, frozen=True):
    """What a task is in its gang. `peers` are the addresses of all members, in the order of their ranks."""

    id: str
    """Of the gang: what started together has the same one."""
    rank: int
    peers: tuple[str, ...]
    master_port: int
    """A port of the machine of rank 0 that is taken for the gang."""
    slots: int = 1
    """Processes of each member, as mpirun counts them: its GPUs, else one."""

    @property
    def size(self) -> int:
        """Return how many members there are."""
        return len(self.peers)

    def variables(self) -> dict[str, str]:
        """Return what a member finds in its environment.

        Those of PyTorch's env:// rendezvous, as if a member were one process; torchrun, which reads PET_*, sets them
        anew for each of the processes that it starts. A member sees its own GPUs alone, numbered from 0: so LOCAL_RANK
        is 0, also where several are on one machine.
        Source: torch/distributed/run.py (PET_), torch/distributed/rendezvous.py; Open MPI's mpirun(1), --host.
        """
        master, port, size, rank = self.peers[0], str(self.master_port), str(self.size), str(self.rank)
        named = dict.fromkeys(self.peers, 0)
        for peer in self.peers:
            named[peer] += self.slots
        return {
            "GANG_ID": self.id,
            "MASTER_ADDR": master,
            "MASTER_PORT": port,
            "WORLD_SIZE": size,
            "RANK": rank,
            "LOCAL_RANK": "0",
            "PEERS": ",".join(self.peers),
            "MPI_HOSTS": ",".join(f"{peer}:{slots}" for peer, slots in named.items()),
            "PET_MASTER_ADDR": master,
            "PET_MASTER_PORT": port,
            "PET_NNODES": size,
            "PET_NODE_RANK": rank,
            "PET_NPROC_PER_NODE": str(self.slots),
        }
