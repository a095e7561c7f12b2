"""A snapshot in, something a person reads out."""
