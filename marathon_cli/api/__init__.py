"""What can be asked of a Marathon (and Metronome), one module per noun: values in, values out, no screen.

Only documented endpoints are called. Source: Marathon's REST API v2, Metronome's REST API v1.
"""
