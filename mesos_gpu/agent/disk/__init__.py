"""What lies on disk: checkpoints, recovery, sandboxes, volumes, and their removal."""
