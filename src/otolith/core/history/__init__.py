"""What happened: commits and their ancestry, refs, the past of a path, undo, and the shelf."""
