"""The report: a snapshot as one HTML file that needs nothing else."""
