"""Compiling numerical kernels with numba, once per kind of CPU, into a user's cache folder.

Importing this module does not import numba: that takes half a second, and only kernels need it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

# NaN and infinity keep their meaning, so the guards of a kernel see them; sums may be reordered, products fused
FASTMATH = {"contract", "reassoc", "nsz"}

ABOUT_SECONDS = 7
UNMAPPED_USER = 65534  # who owns the system's folders in a container that knows no root


def announce(message: str) -> None:
    """Say on standard error that compiling has begun; replace it to keep quiet or to show it elsewhere."""
    sys.stderr.write(f"proximo: {message}\n")
    sys.stderr.flush()


def cache_folder(sources: Path) -> Path:
    """Where compiled code of the modules in the folder ``sources`` lives.

    Another version of them, or another CPU, is another folder: numba notices a change of the file that holds a kernel,
    not of the files that kernel calls into; and machines that share a home folder must not write one index together.
    ``PROXIMO_CACHE_DIR`` names the root, else ``$XDG_CACHE_HOME/proximo``, else ``~/.cache/proximo``.
    """
    import numba
    from numba.core.registry import cpu_target

    root = os.environ.get("PROXIMO_CACHE_DIR")
    if not root:
        root = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "proximo")
    root = os.path.abspath(root)
    digest = hashlib.sha256(Path(__file__).read_bytes())  # the decorators' options
    for source in sorted(sources.glob("*.py")):
        digest.update(source.read_bytes())
    # what numba compiles for: the CPU's name and features, or those of NUMBA_CPU_NAME and NUMBA_CPU_FEATURES
    triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    digest.update(f"{triple} {cpu} {features}".encode())
    name = f"numba-{numba.__version__}-{sources.name}-{cpu or 'generic'}-{digest.hexdigest()[:16]}"
    return Path(root) / "kernels" / name


def usable(folder: Path) -> bool:
    """Whether the folder exists, or could be made, takes files, and takes them from nobody else; if not, warn.

    numba pickles what it keeps, and unpickling runs code: whoever can write there decides what this process does.
    """
    try:
        for part in reversed([part for part in (folder, *folder.parents) if not part.exists()]):
            part.mkdir(mode=0o700, exist_ok=True)
        reason = stranger_in(folder)
        if reason is None:
            with tempfile.TemporaryFile(dir=folder):
                return True
    except OSError as error:
        reason = str(error)
    warnings.warn(
        f"compiled kernels cannot be kept in {folder} ({reason}), so every process compiles them again; set "
        "PROXIMO_CACHE_DIR to a folder that can be written, by you alone",
        stacklevel=2,
    )
    return False


def stranger_in(folder: Path) -> str | None:
    """Who besides the user could put files into a folder or exchange it, and what to do about it; None for nobody.

    The folder must be the user's: root too refuses that of somebody else. The folders above may be root's, or those of
    a system that is not mapped into this container. The bit that a shared ``/tmp`` has lets nobody exchange what is not
    theirs, and a group with the user's own name is the user.
    """
    if os.name == "nt":
        return None
    resolved = folder.resolve()
    trusted = {os.geteuid(), 0, UNMAPPED_USER}
    for path in (resolved, *resolved.parents):
        status = path.stat()
        if status.st_uid not in (trusted if path != resolved else {os.geteuid()}):
            return f"{path} belongs to user {status.st_uid}, not to {os.geteuid()}: remove it, or choose another folder"
        others = stat.S_IWOTH if _is_own_group(status.st_gid) else stat.S_IWOTH | stat.S_IWGRP
        if status.st_mode & others and not (status.st_mode & stat.S_ISVTX and path != resolved):
            return f"others may write to {path}: chmod go-w {path}"
    return None


def _is_own_group(group: int) -> bool:
    """Whether a group is the one that a system makes for each user, under the user's name."""
    import grp
    import pwd

    try:
        return grp.getgrgid(group).gr_name == pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # neither has a name, as in many containers
        return False


_chosen: dict[Path, Path | None] = {}  # folder of sources → its cache folder, None when nothing can be written
_announced = False
_keep_alive: list[Any] = []  # compiled functions that others call by address


def _cache_for(source: Path) -> Path | None:
    """Where the kernels of a source file are kept; of a zipped or frozen install, which has no such files, nowhere."""
    sources = source.parent
    if sources not in _chosen:
        if source.is_file():
            folder = cache_folder(sources)
            _chosen[sources] = folder if usable(folder) else None
        else:
            _chosen[sources] = None
            warnings.warn(
                f"compiled kernels cannot be kept ({source} is no file of its own), so every process compiles them "
                "again; install Proximo as files to avoid that",
                stacklevel=2,
            )
    return _chosen[sources]


@contextlib.contextmanager
def _numba_cache_in(folder: Path) -> Iterator[None]:
    """Point numba at ``folder`` for the moment of decoration; a user's own kernels keep their place."""
    import numba

    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


@contextlib.contextmanager
def _announcing() -> Iterator[None]:
    """Announce, once per process, a compilation that really happens: loading from the cache is silent."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            global _announced
            if not _announced:
                _announced = True
                announce(f"compiling kernels, once (about {ABOUT_SECONDS} s)")

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:run_pass", Listener()):
        yield


def _compile(decorator: Callable[..., Any], function: Function, signature: str, fastmath: bool) -> Any:
    folder = _cache_for(Path(function.__code__.co_filename))
    options = {"error_model": "numpy", "fastmath": FASTMATH if fastmath else False}
    with _announcing(), _numba_cache_in(folder) if folder else contextlib.nullcontext():
        return decorator(signature, cache=folder is not None, **options)(function)


def kernel(signature: str, fastmath: bool = True) -> Callable[[Function], Function]:
    """Compile a function that Python calls, for exactly this signature, or load it from the cache. It frees the GIL."""
    from numba import njit

    return lambda function: _compile(partial(njit, nogil=True), function, signature, fastmath)


def linked(signature: str) -> Callable[[Function], Any]:
    """Compile, once, a function that kernels call; they find it by its symbol, as an object file would.

    numba itself hands the code of a function on to each of its callers, which optimise it again: with a few levels of
    calls, that multiplies the time to compile.
    """
    import llvmlite.binding as llvm  # type: ignore[import-untyped]
    from numba import cfunc, types
    from numba.core.sigutils import normalize_signature

    def decorate(function: Function) -> Any:
        compiled = _compile(cfunc, function, signature, fastmath=True)
        symbol = f"{function.__module__}.{function.__qualname__}"
        llvm.add_symbol(symbol, compiled.address)
        _keep_alive.append(compiled)
        arguments, result = normalize_signature(signature)
        return types.ExternalFunction(symbol, result(*arguments))

    return decorate


def inlined(function: Function) -> Any:
    """A function that becomes part of whoever calls it; it has no Python wrapper, which costs time too.

    Left to choose, LLVM calls some by their symbol. In the process that compiles, that symbol is the function as it was
    compiled alone; in one that loads the cache, the copy within the caller's code, which may round otherwise.
    """
    return _inlined(function, FASTMATH)


def inlined_as_written(function: Function) -> Any:
    """An inlined function whose operations are neither reordered nor fused, for those whose rounding is the point."""
    return _inlined(function, False)


def _inlined(function: Function, fastmath: Any) -> Any:
    import numba

    njit: Any = numba.njit
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy", "fastmath": fastmath}
    return njit(forceinline=True, **options)(function)
