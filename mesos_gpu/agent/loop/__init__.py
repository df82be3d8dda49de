"""The owner of the agent's state: events in, actions carried out in order."""
