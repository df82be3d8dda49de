"""The changes of the registry, and which of them go into one write: what must last of the master. Pure."""
