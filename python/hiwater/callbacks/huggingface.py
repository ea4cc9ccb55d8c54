# SPDX-License-Identifier: MIT
"""Callback for the Trainer of transformers."""
from __future__ import annotations

from ._session import Session, harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Optional

    from .._run import Run
    from ..sinks import Sink

    _Callback = object
else:
    from transformers import TrainerCallback as _Callback


class HuggingFace(_Callback):
    """`Trainer(..., callbacks=[HuggingFace()])`. Phases are train and epoch; a mark shows the end
    of each evaluation. Values that the trainer logs are logged to the run, and the figures of
    `hiwater._figures` are added to `trainer.state.log_history`. The trainer does not report
    exceptions to callbacks: to record out-of-memory errors, put `with hiwater.track():` around
    it."""

    def __init__(self, run: Optional[Run] = None, *, name: Optional[str] = None, sinks: Iterable[Sink] = (),
                 every: float = 10.0, **options: Any) -> None:
        super().__init__()
        self.session = Session(run, name, sinks, every, options)

    @property
    def run(self) -> Run:
        """The run of the present training, or of the last one."""
        return self.session.run

    @harmless
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.session.begin()
        self.session.enter("train")

    @harmless
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._pass_on(state, self.session.figures(is_last=True))
        self.session.end()

    @harmless
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.session.enter("epoch", epoch=round(state.epoch or 0))
        self.session.loop_begins()

    @harmless
    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.session.leave("epoch")

    @harmless
    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.session.step_begins()

    @harmless
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.session.step_ends()

    @harmless
    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.session.run.mark("evaluated")

    @harmless
    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **kwargs: Any) -> None:
        self.session.pause()
        self.session.log({k: v for k, v in (logs or {}).items() if k != "epoch" and not k.startswith("hiwater/")},
                         state.global_step)
        self._pass_on(state, self.session.figures(), logs)

    @staticmethod
    def _pass_on(state: Any, figures: Dict[str, float], logs: Optional[Dict[str, Any]] = None) -> None:
        if figures and logs is not None:
            logs.update(figures)
        if figures and state.log_history:
            state.log_history[-1].update(figures)
