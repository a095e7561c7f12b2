"""What holds for every test: how many examples a property has, and which part a test belongs to.

Tests in `live`, `cli` and `pages` start clusters, processes and browsers, so they run one after the
other. All others are pure: they run in parallel.
"""

from __future__ import annotations

from hypothesis import settings

# a property is about values: how long one example takes on a busy machine says nothing
settings.register_profile("full", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("full")
