"""Running code on a session: the workspace, cells, what was run before, Ctrl-C and a prompt."""
