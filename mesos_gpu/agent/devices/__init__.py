"""Device plugins of any vendor on this machine: the agent is their kubelet."""
