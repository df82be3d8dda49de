"""The box's Mesos master."""
