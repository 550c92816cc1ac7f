"""Two states as one: what differs, which policy decides, and how values join."""
