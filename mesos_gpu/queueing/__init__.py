"""Who of those that wait starts next, what is kept free for whom, and who gives way. Pure, and knows no Mesos."""
