"""`python -m flintstream`: the command line."""

from __future__ import annotations

import sys

from flintstream.jobs.command import main

if __name__ == "__main__":
    sys.exit(main())
