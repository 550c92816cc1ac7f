"""Values that were handed out: what they looked like, what changed since, and who shares them."""
