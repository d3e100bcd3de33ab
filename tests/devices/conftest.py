"""The simulated device is registered for a whole process: its tests are collected only in one that asks for it."""

import os

collect_ignore = [] if os.environ.get("PROXIMO_SIM_DEVICE") else ["on_device"]
