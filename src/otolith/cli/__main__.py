"""`python -m otolith.cli` is `otolith`."""

from otolith.cli.program import main

main()
