"""JSON Schemas (2020-12) of the files users write; read with importlib.resources."""
