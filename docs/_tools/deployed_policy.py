"""The page in which an exported policy plays, ``play/`` of the site: where npm can fetch what runs it there.

Pages ask for it with ``{only} play``; without npm or network they say how to build it.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "deploy"  # where `make deploy-page` has it


def find(app: Sphinx) -> None:
    sys.path.insert(0, str(ROOT))
    from examples.deploy.browser.build import fetch

    try:
        fetch(BUILT.parent / "npm")
    except (SystemExit, subprocess.CalledProcessError) as error:
        logging.getLogger(__name__).info("the site has no page in which a policy plays: %s", error)
    else:
        app.tags.add("play")


def put(app: Sphinx, error: Exception | None) -> None:
    if error is not None or not app.tags.has("play"):
        return
    from examples.deploy.browser.build import build

    with contextlib.redirect_stdout(io.StringIO()):
        build(BUILT)
    shutil.copytree(BUILT, Path(app.outdir) / "play", dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", find)
    app.connect("build-finished", put)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
