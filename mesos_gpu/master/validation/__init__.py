"""Whether a call, a task or an operation may be. Pure."""
