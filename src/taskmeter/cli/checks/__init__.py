"""What ``taskmeter doctor`` checks: one check a module."""
