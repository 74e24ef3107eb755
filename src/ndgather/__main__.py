"""Entry point of ``python -m ndgather``, equivalent to the command ``ndgather``."""

import sys

from ndgather.cli import main

sys.exit(main())
