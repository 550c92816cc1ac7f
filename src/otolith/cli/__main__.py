"""`python -m otolith.cli` is `otolith`."""

from otolith.cli.main import main

main()
