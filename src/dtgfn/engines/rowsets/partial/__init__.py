"""The part of the graph of row sets that has been looked at so far."""
