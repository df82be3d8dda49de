"""Mesos' vocabulary: resources, messages, framings, flags. Bytes and values; no sockets, no files."""
