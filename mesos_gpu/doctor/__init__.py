"""Is this machine fit for GPU containers? Facts are gathered at one edge, and judged by pure functions."""
