"""Turns what runs elsewhere (Kubernetes, Compose, docker run) into apps, pods and jobs, and says what is lost.

Each reader (kubernetes.py, compose.py, docker.py) makes workloads (model.py) of its source; writing.py makes the
documents of them. Whatever a reader does not take from its source is reported with its line (source.py), so that
nothing is lost in silence. Pure: texts in, values out.
"""
