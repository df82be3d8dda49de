"""Who watches a container while the agent is away, and keeps its exit status."""
