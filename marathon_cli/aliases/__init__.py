"""What docker, kubectl, dcos and gcloud call commands: one table, and commands made of it and of the registry's."""
