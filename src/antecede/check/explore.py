"""``python -m antecede.check.explore``; import :mod:`antecede.check.exploration` instead."""

import sys

from antecede.check.exploration import main

if __name__ == "__main__":
    sys.exit(main())
