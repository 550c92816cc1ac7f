"""The story that `otolith demo` tells, with real processes."""
