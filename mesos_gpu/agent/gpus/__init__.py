"""The agent's GPUs: their record, their health, the thread that asks the driver."""
