"""What a kubelet and its neighbours on a machine say to each other: device plugins (v1beta1), pod resources (v1)."""

import importlib.util

from mesos_gpu.errors import Unavailable


def require_grpc() -> None:
    """Raise Unavailable if gRPC is not installed. Call it before a module that imports `grpc` is imported."""
    if importlib.util.find_spec("grpc") is None:
        raise Unavailable(
            "the interfaces of Kubernetes need gRPC, which is not installed: pip install 'mesos-gpu[kubernetes]'"
        )
