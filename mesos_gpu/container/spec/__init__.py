"""What a container is to be: its configuration and its OCI bundle. Pure."""
