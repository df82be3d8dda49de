"""Where a task goes, of all the machines that it fits: a table of policies, over the mix of what is asked for. Pure."""
