"""GPUs that are not there: a program that plays the cards and their driver, and the libraries that programs ask it by.

The program imports the standard library and this room alone: it starts fast, is small, and outlives its agent as a
card would.
"""
