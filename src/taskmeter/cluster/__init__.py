"""The account of the whole cluster: pure."""
