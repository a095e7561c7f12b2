"""Distributions of durations and sizes in log buckets: pure."""
