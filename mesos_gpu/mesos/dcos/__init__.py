"""What DC/OS calls things: its switches about GPUs."""
