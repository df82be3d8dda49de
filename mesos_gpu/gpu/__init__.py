"""This machine's GPUs: found through NVML, or simulated."""
