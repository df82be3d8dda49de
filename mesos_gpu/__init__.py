"""GPUs on Apache Mesos and Marathon."""

__version__ = "0.2.0.dev0"
