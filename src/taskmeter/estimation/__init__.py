"""What an attempt is expected to take, learned from what ended and what runs: pure."""
