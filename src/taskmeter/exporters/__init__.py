"""A snapshot in, an exposition format out."""
