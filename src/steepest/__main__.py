"""``python -m steepest``."""

import sys

from steepest.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
