"""Commands about files that define several things of any kind."""
