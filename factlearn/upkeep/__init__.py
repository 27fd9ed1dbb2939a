"""Looking after an installation: is everything usable, whose is it, and copies of runs and indexes."""
