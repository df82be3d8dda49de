"""`run`: a command once, with a terminal where asked, and its end."""
