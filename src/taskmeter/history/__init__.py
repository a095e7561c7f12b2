"""What a cluster did over time: steps that add up, and rings that keep the past."""
