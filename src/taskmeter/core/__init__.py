"""The pure core: records, ledgers and snapshots. No dask, clock, IO, threads or logging."""
