"""Docker and OCI images: where they come from, how their layers become folders, and the store that keeps them.

Nothing is imported here, so that the extraction process starts fast.
"""
