"""The CLI: checks app definitions and talks to any Marathon and Mesos."""
