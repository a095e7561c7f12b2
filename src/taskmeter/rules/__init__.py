"""Rules for Prometheus: what it records, and what it warns of."""
