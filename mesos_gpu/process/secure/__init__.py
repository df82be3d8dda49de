"""TLS of our ports and of our ways to others."""
