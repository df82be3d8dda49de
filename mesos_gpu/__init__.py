"""GPUs on Apache Mesos and Marathon."""
