"""How servers are reached: transport, TLS, credentials, settings, profiles, this machine's box."""
