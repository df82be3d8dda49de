"""The wire to scheduler drivers of libmesos: frameworks that speak libprocess messages instead of HTTP."""
