# SPDX-License-Identifier: MIT
"""Callbacks of training frameworks: a run with phases, how long training waits for data, and the logged losses, in one line.

    Trainer(callbacks=[hiwater.callbacks.Lightning()])          PyTorch Lightning
    Trainer(..., callbacks=[hiwater.callbacks.HuggingFace()])   transformers
    model.fit(..., callbacks=[hiwater.callbacks.Keras()])       Keras 3
    for epoch, batches in hiwater.callbacks.epochs(3, loader):  plain PyTorch, or any loop

Each takes

run       that measures already; without it the innermost one of this process, or one of its own for the training
name      of that one of its own
sinks     where the figures go, too (`hiwater.sinks`)
every     seconds between two times that figures go there, and to the framework's own loggers; 10
options   of `hiwater.track` as further keywords, for the run of its own

`callback.run` is the run. A callback never raises into the training (`callback.run.warnings` says what went wrong), never
waits for the GPU (of losses, those that are numbers already, or tensors of the host, are logged) and sets nobody's peak
counters back. Importing this imports no framework; each is a module of its own, so that callbacks can be pickled.
"""
from __future__ import annotations

from ._session import epochs as epochs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Optional

    from .._run import Run
    from ..sinks import Sink

    # What the framework takes as its callback: subclasses of its own class.
    def HuggingFace(run: Optional[Run] = None, *, name: Optional[str] = None, sinks: Iterable[Sink] = (), every: float = 10.0,
                    **options: Any) -> Any: ...
    def Keras(run: Optional[Run] = None, *, name: Optional[str] = None, sinks: Iterable[Sink] = (), every: float = 10.0,
              **options: Any) -> Any: ...
    def Lightning(run: Optional[Run] = None, *, name: Optional[str] = None, sinks: Iterable[Sink] = (), every: float = 10.0,
                  **options: Any) -> Any: ...

# Of each the module here, and the package that it is for.
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
        raise ModuleNotFoundError(f"hiwater.callbacks.{name} needs {package}, which is not installed here: pip install {package}",
                                  name=package) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
