"""One file per group of verbs: each reads its arguments, calls the core, and shows the answer."""
