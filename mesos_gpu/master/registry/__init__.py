"""What must last of the master: the registry, on disk or in ZooKeeper."""
