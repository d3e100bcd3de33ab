"""``python -m proximo`` and ``torchrun -m proximo``: the command line."""

import sys

from proximo.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
