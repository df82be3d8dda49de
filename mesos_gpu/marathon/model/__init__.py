"""Apps, jobs and pods while they run: instances, deployments, health, reservations. Pure."""
