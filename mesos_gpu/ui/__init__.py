"""The page: what a browser is given, and how. Its modules, styles and words lie in `static/`; nothing is built."""
