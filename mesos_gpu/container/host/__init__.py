"""The host under containers: mounts, namespaces, processes, users, roots, disk, the OCI runtime."""
