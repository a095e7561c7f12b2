"""What a worker tells the scheduler, and the one codec: pure."""
