"""Recording rules and alerts for Prometheus."""
