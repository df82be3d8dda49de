"""The Mesos agent: tasks in containers, statuses to the master."""
