"""Doors: how containers that Mesos did not start get their GPUs from an agent's book, each door a room of its own."""
