"""Who may come in, and over which wire: credentials, lists of rights and TLS, as values. Nothing here acts."""
