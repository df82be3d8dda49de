"""Parts of GPUs, as tasks ask for them and as agents offer them. Pure."""
