"""`python -m hushgram`: the `hushgram` command."""

import sys

from hushgram.pipelines.cli.command import main

if __name__ == "__main__":
    sys.exit(main())
