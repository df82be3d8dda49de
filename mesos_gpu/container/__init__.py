"""UCR containers: a bundle, an OCI runtime, a supervisor and a sandbox."""
