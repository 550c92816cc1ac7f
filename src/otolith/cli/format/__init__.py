"""Results as text and JSON: history, values, workspaces, conversations, runs, charts."""
