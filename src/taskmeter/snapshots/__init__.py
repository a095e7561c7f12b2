"""Everything known at one instant, immutable: pure."""
