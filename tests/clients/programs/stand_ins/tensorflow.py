"""Stands where TensorFlow would: tfmesos imports it, and does not use it for jobs that are commands."""
