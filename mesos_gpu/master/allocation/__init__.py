"""Who is offered what: fair shares, quota, filters, constraints. Pure."""
