"""Engines that turn rows and a score into a posterior over trees."""
