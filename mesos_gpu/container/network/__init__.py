"""Networks of containers: CNI plugins and network namespaces."""
