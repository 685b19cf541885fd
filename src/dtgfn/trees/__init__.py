"""Trees as arrays, what their leaves hold, and their score."""
