# SPDX-License-Identifier: MIT
"""Callback for Keras 3, with any backend."""
from __future__ import annotations

from ._session import Session, harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Optional

    from .._run import Run
    from ..sinks import Sink

    _Callback = object
else:
    from keras.callbacks import Callback as _Callback


class Keras(_Callback):
    """`model.fit(..., callbacks=[Keras()])`. Phases are fit, epoch and validation. Values that
    Keras logs at the end of an epoch are logged to the run, and the history that fit returns has
    the figures of `hiwater._figures` for each epoch, NaN if an epoch was too short for them (a
    recording has one window per second)."""

    def __init__(self, run: Optional[Run] = None, *, name: Optional[str] = None, sinks: Iterable[Sink] = (),
                 every: float = 10.0, **options: Any) -> None:
        super().__init__()
        self.session = Session(run, name, sinks, every, options)

    @property
    def run(self) -> Run:
        """The run of the present training, or of the last one."""
        return self.session.run

    @harmless
    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        self.session.begin()
        self.session.enter("fit")
        self._steps = 0
        self._unknown = {f"hiwater/{name}": float("nan") for name in ("ram_gib", "cpu_cores", "data_wait", "step_s")}

    @harmless
    def on_train_end(self, logs: Optional[Dict[str, Any]] = None) -> None:
        self.session.end()

    @harmless
    def on_epoch_begin(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self.session.enter("epoch", epoch=epoch)
        self.session.loop_begins()

    @harmless
    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self.session.log(logs, step=self._steps)
        self.session.leave("epoch")
        if logs is not None:
            logs.update({**self._unknown, **self.session.figures(is_last=True)})

    @harmless
    def on_train_batch_begin(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self.session.step_begins()

    @harmless
    def on_train_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self._steps += 1
        self.session.step_ends()

    @harmless
    def on_test_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        self.session.enter("validation")

    @harmless
    def on_test_end(self, logs: Optional[Dict[str, Any]] = None) -> None:
        self.session.leave("validation")
