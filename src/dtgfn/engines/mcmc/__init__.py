"""Metropolis-Hastings chains over trees."""
