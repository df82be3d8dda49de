"""Documents to protobuf bytes and back: by plans in Python, and compiled where that is installed. Pure."""
