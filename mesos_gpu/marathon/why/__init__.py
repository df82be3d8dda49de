"""Why something runs nowhere, and what is wrong with what was written: for the page and the command line. Pure."""
