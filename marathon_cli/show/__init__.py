"""What is shown: GPUs, agents, files, metrics, and why something does not run."""
