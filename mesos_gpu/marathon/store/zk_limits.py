"""What a Marathon that keeps its state in ZooKeeper puts there at most."""

from __future__ import annotations

from msgspec import Struct

from mesos_gpu.marathon.state.settings import MAX_VERSIONS


class ZkLimits(Struct, frozen=True):
    """`--zk_max_versions`, `--zk_compression`, `--zk_compression_threshold` and `--zk_max_node_size`, in bytes."""

    max_versions: int = MAX_VERSIONS
    compression: bool = True
    compression_threshold: int = 64 * 1024
    max_node_size: int = 1_024_000
