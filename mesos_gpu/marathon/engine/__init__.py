"""What acts: the loop that owns the state, the scheduler driver, health probes, leader election."""
