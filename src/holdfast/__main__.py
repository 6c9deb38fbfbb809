"""python -m holdfast: the command line, where no script was installed."""

import sys

from holdfast.cli import main

if __name__ == "__main__":
    sys.exit(main())
