"""GPUs on Apache Mesos and Marathon."""

__version__ = "0.1.0"
