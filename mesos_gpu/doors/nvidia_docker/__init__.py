"""nvidia-docker 1.0.1: its command, its volume plugin and its REST interface, on the agent's book."""
