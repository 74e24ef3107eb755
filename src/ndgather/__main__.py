"""``python -m ndgather``: the same as the command ``ndgather``."""

import sys

from ndgather.cli import main

sys.exit(main())
