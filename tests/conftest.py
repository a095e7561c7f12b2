from __future__ import annotations

from hypothesis import settings

# a property is about values: how long one example takes on a busy machine says nothing
settings.register_profile("values", deadline=None)
settings.load_profile("values")
