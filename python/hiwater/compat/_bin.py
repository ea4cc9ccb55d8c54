# SPDX-License-Identifier: MIT
"""Folders for the PATH, with programs named as those of other packages."""
from __future__ import annotations

import hashlib
import os
import shlex
import sys
import tempfile

PACKAGES = {"gpu_tracker": "gpu-tracker", "gpu_tracker_2": "gpu-tracker"}  # module in hiwater.compat: name of its program


def folder(package: str = "gpu_tracker") -> str:
    """Makes or updates the folder, and returns its path. Raises OSError."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    whose = hashlib.sha256(f"{sys.executable}\n{here}".encode()).hexdigest()[:12]
    path = os.path.join(_cache(), "hiwater", "bin", f"{package}-{whose}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.stat(path).st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user")
    _write(os.path.join(path, PACKAGES[package]), _program(package, here))
    return path


def _cache() -> str:
    named = os.environ.get("XDG_CACHE_HOME", "")
    return named if os.path.isabs(named) else os.path.join(os.path.expanduser("~"), ".cache")


def _program(package: str, here: str) -> str:
    """A shell script, because a #! line limits the path of the interpreter. Removes the working
    directory from sys.path."""
    run = f"import sys; del sys.path[:sys.path[:1] == ['']]; sys.path += [{here!r}]; import runpy; " \
          f"sys.argv[0] = {PACKAGES[package]!r}; runpy.run_module('hiwater.compat.{package}', run_name='__main__', alter_sys=False)"
    return f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(run)} \"$@\"\n"


def _write(path: str, text: str) -> None:
    """Replaces the file atomically, because the old one may be running."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text and os.access(path, os.X_OK):
                return
    except OSError:
        pass
    fd, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(new, 0o755)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
