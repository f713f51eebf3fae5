"""``python -m steepest``."""

import sys

try:
    from steepest.cli.main import main
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
