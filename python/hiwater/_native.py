# SPDX-License-Identifier: MIT
"""Loads the package's C extension: next to this file, or, in the source tree, the file that
HIWATER_CORE names."""
from __future__ import annotations

import os

from ._errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Callable, List, Optional, Sequence, Tuple, Union

    from . import _core


def _named(path: str) -> ModuleType:
    import sys
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import module_from_spec, spec_from_loader

    name = f"{__package__}._core"
    loader = ExtensionFileLoader(name, path)
    spec = spec_from_loader(name, loader)
    if spec is None:
        raise ImportError(f"{path} is not an extension module")
    module = module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def _found() -> ModuleType:
    named = os.environ.get("HIWATER_CORE")
    try:
        if named:
            return _named(os.path.abspath(named))
        from . import _core

        return _core
    except ImportError as e:
        raise Error(f"hiwater's C extension cannot be loaded ({e}): pip install hiwater again; in the source tree, build it with "
                    "Python's headers installed and set HIWATER_CORE to build/_core.abi3.so") from e


_module = _found()
Pushes: type[_core.Pushes] = _module.Pushes
svg: Callable[[str, Sequence[str]], Tuple[str, str]] = _module.svg
columns: Callable[[str, str], List[Tuple[str, Union[memoryview, List[Optional[str]]]]]] = _module.columns
