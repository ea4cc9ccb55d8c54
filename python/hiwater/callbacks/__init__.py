# SPDX-License-Identifier: MIT
"""Callbacks for training frameworks: a run with phases, the time that training waits for data, and
the logged losses.

    Trainer(callbacks=[hiwater.callbacks.Lightning()])          PyTorch Lightning
    Trainer(..., callbacks=[hiwater.callbacks.HuggingFace()])   transformers
    model.fit(..., callbacks=[hiwater.callbacks.Keras()])       Keras 3
    for epoch, batches in hiwater.callbacks.epochs(3, loader):  plain PyTorch, or any loop

Each takes

run       a run that is already measured; default: the innermost one of this process, else a new run for the training
name      of the new run
sinks     that get the figures as well (`hiwater.sinks`)
every     seconds between two writes of figures to the sinks and the framework's own loggers; default 10
options   further keywords of `hiwater.track`, for the new run

`callback.run` is the run. A callback never raises into the training (`callback.run.warnings` lists
failures), never waits for the GPU (it logs only losses that are numbers or tensors of the host) and
resets no peak counters. Importing this module imports no framework; each callback has a module of
its own, so that it can be pickled.
"""
from __future__ import annotations

from ._session import epochs as epochs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Optional

    from .._run import Run
    from ..sinks import Sink

    # These are subclasses of the framework's callback class.
    def HuggingFace(run: Optional[Run] = None, *, name: Optional[str] = None, sinks: Iterable[Sink] = (), every: float = 10.0,
                    **options: Any) -> Any: ...
    def Keras(run: Optional[Run] = None, *, name: Optional[str] = None, sinks: Iterable[Sink] = (), every: float = 10.0,
              **options: Any) -> Any: ...
    def Lightning(run: Optional[Run] = None, *, name: Optional[str] = None, sinks: Iterable[Sink] = (), every: float = 10.0,
                  **options: Any) -> Any: ...

# Callback: (module of this package, package of the framework).
_MODULES = {"HuggingFace": ("huggingface", "transformers"), "Keras": ("keras", "keras"), "Lightning": ("lightning", "lightning")}
__all__ = ["HuggingFace", "Keras", "Lightning", "epochs"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, package = _MODULES[name]
    try:
        value: object = getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != package:
            raise
        raise ModuleNotFoundError(f"hiwater.callbacks.{name} needs {package}, which is not installed: pip install {package}",
                                  name=package) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
