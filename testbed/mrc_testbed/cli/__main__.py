"""`python -m mrc_testbed.cli` is the mrc-testbed command."""

from mrc_testbed.cli.app import main

main()
