"""Tests of the master, from its pure rules up to a real framework on real sockets."""
