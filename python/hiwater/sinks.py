# SPDX-License-Identifier: MIT
"""Sinks for experiment trackers: TensorBoard, MLflow and Weights & Biases get figures during a run,
and its summary at the end.

    with hiwater.track() as run:
        run.add_sink(hiwater.sinks.TensorBoard("logs"))
        for step, batch in enumerate(loader):
            ...
            run.log(loss=loss, step=step)

The figures are those of `hiwater._figures`: peaks and means since the previous ones, such as
`hiwater/ram_gib`. `run.log` writes them, in the calling thread, every ten seconds at most
(`run.add_sink(sink, every=60)`), and `stop` at the end of the run. If a tracker fails, it gets no
more figures and `run.warnings` says so; the run continues.

Any object with `write(figures, step)` and `end(summary)` is a sink.
"""
from __future__ import annotations

from ._errors import Error
from ._figures import of_summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any, Mapping, Optional, Protocol, Union

    from ._summary import Summary

    class Sink(Protocol):
        """The interface for `Run.add_sink`. If a method raises, the run adds a warning and calls
        the sink no more."""

        def write(self, figures: Mapping[str, float], step: Optional[int]) -> None:
            """Gets the figures since the previous call; step is the last one logged, if any."""

        def end(self, summary: Summary) -> None:
            """Called once, at the end of the run."""


def _imported(name: str, why: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as e:
        raise Error(f"{why} needs {name.partition('.')[0]}: pip install {name.partition('.')[0]} ({e})") from e


class TensorBoard:
    """where: a folder of logs, or a SummaryWriter, which the caller closes."""

    def __init__(self, where: Union[str, PathLike[str], Any]) -> None:
        self._own: Any = None
        self._writer: Any = where
        if not hasattr(where, "add_scalar"):
            self._writer = self._own = _imported("tensorboard.summary", "a folder of TensorBoard").Writer(str(where))
        self._step = 0

    def write(self, figures: Mapping[str, float], step: Optional[int]) -> None:
        self._step = self._step + 1 if step is None else step
        for name, value in figures.items():
            self._writer.add_scalar(name, value, self._step)

    def end(self, summary: Summary) -> None:
        for name, value in of_summary(summary).items():
            self._writer.add_scalar(name, value, self._step)
        self._writer.flush()
        if self._own is not None:
            self._own.close()


class MLflow:
    """The active run of MLflow, or the one with this id. The summary becomes the artifact
    hiwater/summary.json. Raises Error if there is no active run."""

    def __init__(self, run_id: Optional[str] = None) -> None:
        mlflow = _imported("mlflow", "the sink MLflow")
        if run_id is None:
            active = mlflow.active_run()
            if active is None:
                raise Error("MLflow has no active run: call mlflow.start_run() first, or give run_id=")
            run_id = active.info.run_id
        self._client = mlflow.MlflowClient()
        self._entity = _imported("mlflow.entities", "the sink MLflow").Metric
        self._run_id = run_id
        self._step = 0

    def write(self, figures: Mapping[str, float], step: Optional[int]) -> None:
        import time

        self._step = self._step + 1 if step is None else step
        now_ms = int(time.time() * 1000)
        self._client.log_batch(self._run_id, metrics=[self._entity(name, value, now_ms, self._step)
                                                      for name, value in figures.items()])

    def end(self, summary: Summary) -> None:
        self.write(of_summary(summary), self._step)
        self._client.log_text(self._run_id, summary.to_json(), "hiwater/summary.json")


class WandB:
    """run: a run of Weights & Biases, by default the current one. Figures are added to the step
    that the program commits next, those of the summary to the run's summary. Raises Error if there
    is no run."""

    def __init__(self, run: Any = None) -> None:
        if run is None:
            run = _imported("wandb", "the sink WandB").run
            if run is None:
                raise Error("Weights & Biases has no run: call wandb.init() first, or give run=")
        self._run = run

    def write(self, figures: Mapping[str, float], step: Optional[int]) -> None:
        self._run.log(dict(figures), commit=False)

    def end(self, summary: Summary) -> None:
        self._run.summary.update(of_summary(summary))
