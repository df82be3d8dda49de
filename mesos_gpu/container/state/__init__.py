"""What is known of containers: live ones, checkpoints, how they ended, recovery."""
