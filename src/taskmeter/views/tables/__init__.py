"""Tables that a terminal and the report show."""
