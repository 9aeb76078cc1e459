"""`python -m testbed.cli` is the mrc-testbed command."""

from testbed.cli.app import main

main()
