"""Files that define something: their text, positions, properties and problems."""
