"""Change tracking: which values a branch has returned, what changed in them, what they share."""
