"""A history of jobs, lived through once more: the deciding cores of master and Marathon in virtual time. Pure."""
