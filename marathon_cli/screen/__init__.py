"""Output: tables, paragraphs, units, progress, terminals, language."""
