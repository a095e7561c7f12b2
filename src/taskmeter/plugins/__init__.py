"""The only package that knows Dask's Scheduler and Worker."""
