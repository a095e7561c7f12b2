"""The pages in Dask's dashboard."""
