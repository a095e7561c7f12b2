"""Tables and the live view in a terminal."""
