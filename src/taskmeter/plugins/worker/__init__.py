"""The worker's plugin and its parts."""
