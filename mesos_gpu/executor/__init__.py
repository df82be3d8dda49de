"""Mesos' default executor: runs task groups, each task in a nested container. A program of its own, stdlib only."""
