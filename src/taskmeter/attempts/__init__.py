"""What an attempt is and what is counted of it: pure, on one clock."""
