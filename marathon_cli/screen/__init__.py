"""The screen: output, tables, paragraphs, terminals, interrupts."""
