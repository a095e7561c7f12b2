"""The scheduler's plugin and its parts."""
