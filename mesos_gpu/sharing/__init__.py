"""Turns on shared GPUs: who runs and who is frozen, decided by a ring, carried out by a program that outlives no agent.

The program imports the standard library and this room alone: it starts fast, is small, and runs on while the agent is
upgraded.
"""
