"""`why`, `gpu`, `queue`, `agent describe`."""
