"""The state as the API shows it. Pure."""
