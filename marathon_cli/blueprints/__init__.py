"""`flags`: a cluster in a few words, and the flags that follow. Pure."""
