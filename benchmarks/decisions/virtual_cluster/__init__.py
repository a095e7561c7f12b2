"""A real scheduler with real state machines of workers, in virtual time."""
