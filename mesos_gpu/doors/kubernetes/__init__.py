"""The agent's GPUs for a kubelet on the same machine: a device plugin whose devices stand in the agent's book."""
