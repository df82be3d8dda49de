"""Tests of the simulated cards, from their clock up to real programs over libcuda.so.1."""
