"""What the default executor decides: events in, actions out, over named books. Nothing here acts."""
