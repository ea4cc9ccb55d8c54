# SPDX-License-Identifier: MIT
"""For Keras 3, on any of its backends."""
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
    """`model.fit(..., callbacks=[Keras()])`. Phases are fit, epoch and validation; what Keras logs at the end of an epoch is
    logged here, too, and the history that fit returns has the figures of `hiwater._figures` of each epoch, NaN where an epoch was
    too short for them (a recording has a window each second)."""

    def __init__(self, run: Optional[Run] = None, *, name: Optional[str] = None, sinks: Iterable[Sink] = (),
                 every: float = 10.0, **options: Any) -> None:
        super().__init__()
        self.session = Session(run, name, sinks, every, options)

    @property
    def run(self) -> Run:
        """The run of the training that goes on, or of the last one."""
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
