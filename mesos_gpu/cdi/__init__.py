"""CDI, the Container Device Interface: specifications of devices, read, checked and written. Values only."""
