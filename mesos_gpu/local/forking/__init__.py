"""Services as forks of one process that has read their code: what is read, how it is asked, and each one's life."""
