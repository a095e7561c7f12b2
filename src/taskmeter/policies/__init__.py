"""What to do with what is known: pure decisions, each a value with its reason in words.

Nothing here knows Dask, a clock or a thread. Whoever carries a decision out is in the plugins.
"""
