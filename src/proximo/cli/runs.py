"""Run folders as the command line makes and reads them."""

from __future__ import annotations
