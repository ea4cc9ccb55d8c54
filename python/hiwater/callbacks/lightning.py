# SPDX-License-Identifier: MIT
"""Callback for PyTorch Lightning, under either of its package names."""
from __future__ import annotations

import sys

from ._session import Session, harmless, numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Mapping, Optional

    from .._run import Run
    from ..sinks import Sink

    _Callback = object
    _Logger = object
elif "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
    from pytorch_lightning import Callback as _Callback
    from pytorch_lightning.loggers import Logger as _Logger
else:
    from lightning.pytorch import Callback as _Callback
    from lightning.pytorch.loggers import Logger as _Logger


class Listener(_Logger):
    """Gets the values that Lightning logs, as numbers. Reading them from the tensors earlier would
    wait for the device."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    @property
    def name(self) -> None:
        return None

    @property
    def version(self) -> None:
        return None

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        pass

    @harmless
    def log_metrics(self, metrics: Mapping[str, float], step: Optional[int] = None) -> None:
        self.session.log({k: v for k, v in metrics.items() if not k.startswith("hiwater/") and k != "epoch"}, step)


class Lightning(_Callback):
    """`Trainer(callbacks=[Lightning()])`. Phases are fit, epoch, validation, test, predict. Values
    logged with `self.log` are logged to the run if the trainer has a logger; the trainer's loggers
    get the figures of `hiwater._figures`."""

    def __init__(self, run: Optional[Run] = None, *, name: Optional[str] = None, sinks: Iterable[Sink] = (),
                 every: float = 10.0, **options: Any) -> None:
        super().__init__()
        self.session = Session(run, name, sinks, every, options)

    @property
    def run(self) -> Run:
        """The run of the present training, or of the last one."""
        return self.session.run

    @property
    def state_key(self) -> str:
        return "hiwater"

    # ---- the training

    @harmless
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self.session.begin()
        if trainer.loggers:
            trainer.loggers = [*(x for x in trainer.loggers if not isinstance(x, Listener)), Listener(self.session)]
        self.session.enter(str(getattr(stage, "value", stage)))

    @harmless
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._end(trainer, None)

    @harmless
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._end(trainer, exception)

    def _end(self, trainer: Any, exception: Optional[BaseException]) -> None:
        """Ends the run and removes the Listener, also if a logger raises."""
        try:
            self._pass_on(trainer, is_last=True)
        finally:
            try:
                trainer.loggers = [x for x in trainer.loggers if not isinstance(x, Listener)]
            finally:
                self.session.end(exception)

    # ---- its epochs and batches

    @harmless
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self.session.enter("epoch", epoch=trainer.current_epoch)
        self.session.loop_begins()

    @harmless
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.loggers:
            self.session.log(numbers(trainer.callback_metrics), trainer.global_step)
        self.session.leave("epoch")
        self._pass_on(trainer)

    @harmless
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.session.step_begins()

    @harmless
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.session.step_ends()
        self._pass_on(trainer)

    @harmless
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self.session.enter("sanity check" if trainer.sanity_checking else "validation")

    @harmless
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self.session.leave("sanity check" if trainer.sanity_checking else "validation")

    def _pass_on(self, trainer: Any, is_last: bool = False) -> None:
        figures: Dict[str, float] = self.session.figures(is_last)
        for logger in trainer.loggers if figures else ():
            if not isinstance(logger, Listener):
                logger.log_metrics(figures, step=trainer.global_step)
