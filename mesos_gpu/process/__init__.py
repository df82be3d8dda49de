"""A libprocess process on asyncio: one port for HTTP and messages, and links to other processes."""
