"""Which offer is taken for what, and the TaskInfo that is launched on it. Pure."""
