"""What must last: Marathon's state as rows, kept in SQLite or ZooKeeper."""
