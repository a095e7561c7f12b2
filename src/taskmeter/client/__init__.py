"""What a Dask client calls: install, snapshot, measure, progress, hedging, timeouts."""
