"""Qt 5, which Procgen draws its images with: the system's own, or the one of the wheel PyQt5-Qt5."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
from pathlib import Path

from proximo.errors import MissingSystemLibraryError

# each needs those before it
WHEEL_LIBRARIES = (
    "libicudata.so.56",
    "libicuuc.so.56",
    "libicui18n.so.56",
    "libQt5Core.so.5",
    "libQt5Gui.so.5",
)


def load_qt() -> None:
    """Load Qt 5 into this process, so that EnvPool's Procgen finds it; no work where it is loaded already.

    Only EnvPool's builds for Linux take Qt from outside.
    """
    if sys.platform != "linux":
        return
    try:
        # brings libQt5Core along; a failure leaves nothing behind that could mix with the wheel's libraries
        ctypes.CDLL("libQt5Gui.so.5", ctypes.RTLD_GLOBAL)
    except OSError as error:
        _load_wheel(error)
    _import_procgen_again()


def _load_wheel(system_error: OSError) -> None:
    folder = _wheel_folder()
    if folder is None:
        raise MissingSystemLibraryError(
            f"Procgen needs Qt 5, and there is neither the system's ({system_error}) nor the one of the wheel "
            "PyQt5-Qt5. Install one: pip install 'proximo[procgen]' (Linux on x86-64), "
            "or apt-get install libqt5core5a libqt5gui5 (Debian's names)"
        ) from system_error
    for name in WHEEL_LIBRARIES:
        try:
            ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise MissingSystemLibraryError(
                f"Procgen needs Qt 5, and {name} of the wheel PyQt5-Qt5 cannot be loaded ({error}). It expects OpenGL "
                "and GLib of the system: apt-get install libgl1 libglib2.0-0 (Debian's names)"
            ) from error


def _wheel_folder() -> Path | None:
    """Where PyQt5-Qt5 put its libraries; ``PyQt5`` itself, a package of Python bindings, need not be installed."""
    spec = importlib.util.find_spec("PyQt5")
    for location in (spec.submodule_search_locations if spec is not None else None) or ():
        folder = Path(location) / "Qt5" / "lib"
        if (folder / WHEEL_LIBRARIES[-1]).is_file():
            return folder
    return None


def _import_procgen_again() -> None:
    """EnvPool imports Procgen whenever it is imported, and keeps the error if Qt was not loaded by then."""
    procgen = sys.modules.get("envpool.procgen")
    if procgen is not None and "ProcgenEnvSpec" not in vars(procgen):
        importlib.reload(procgen)
