"""URIs into sandboxes: downloads, archives, the cache."""
