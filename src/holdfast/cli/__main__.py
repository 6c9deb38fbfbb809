"""python -m holdfast.cli: the command line, as the processes of a stampede are started."""

import sys

from holdfast.cli import main

if __name__ == "__main__":
    sys.exit(main())
