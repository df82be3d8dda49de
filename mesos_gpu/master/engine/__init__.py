"""The owner of the master's state: events in, actions carried out in order."""
