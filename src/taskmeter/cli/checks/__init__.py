"""What ``taskmeter doctor`` checks: one thing a module."""
