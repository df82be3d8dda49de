"""Tasks, executors, status updates, events and actions: the values that the agent decides with."""
