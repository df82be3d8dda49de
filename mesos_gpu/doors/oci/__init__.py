"""nvidia-docker 2: the hook that Docker calls by its name, OCI hooks, and a runtime that gives GPUs before runc."""
