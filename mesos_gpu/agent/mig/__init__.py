"""GPUs in MIG mode: divided as flags and operators say, while tasks run."""
