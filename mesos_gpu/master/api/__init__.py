"""The master's HTTP API: the scheduler's calls, operators' endpoints, event streams."""
