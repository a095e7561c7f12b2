"""Dask without a cluster: what its schedulers of one machine run, by their callbacks."""
