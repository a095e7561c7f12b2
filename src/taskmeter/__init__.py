"""What every kind of Dask task really costs, while it is still running."""
