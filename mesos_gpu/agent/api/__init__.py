"""The agent's HTTP API: operators' endpoints, v1 calls, containers, images, GPUs."""
