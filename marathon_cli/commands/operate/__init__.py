"""`agent`, `service`, `quota`, `image`, `config`, `flags`, and Marathon itself."""
