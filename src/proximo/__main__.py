"""``python -m proximo`` and ``torchrun -m proximo``: the command line."""

from __future__ import annotations

import sys

from proximo.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
