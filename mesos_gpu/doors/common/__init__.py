"""What the doors share: the way to the agent, and what a lease is to whoever makes containers."""
