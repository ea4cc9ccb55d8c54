# SPDX-License-Identifier: MIT
"""Callbacks in real trainings of the real frameworks, sinks into the real trackers, and their
limits, on stand-ins."""
import pytest


def full(test):
    """With the real packages (tools/requirements-full.txt)."""
    return pytest.mark.full(pytest.mark.frameworks(pytest.mark.timeout(300)(test)))


GUARD = """
os.environ.update(KERAS_BACKEND="torch", CUDA_VISIBLE_DEVICES="", TOKENIZERS_PARALLELISM="false", MPLBACKEND="agg")
import warnings; warnings.simplefilter("ignore")
import logging; logging.disable(logging.WARNING)
import torch
touched = []
def is_ours():
    import traceback
    return any("/hiwater/" in frame.filename for frame in traceback.extract_stack())
for name in ("synchronize", "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_accumulated_memory_stats",
             "empty_cache"):
    setattr(torch.cuda, name, lambda *a, _name=name, **k: touched.append(_name) if is_ours() else None)

def series(run, name): return run.summary.series[name]
def nesting(run):
    "Names of phases with their parents', in the order of their beginnings."
    rows = run.recording.columns("phase")
    names = dict(zip(rows["number"], rows["name"]))
    return [(name, names.get(parent)) for name, parent in zip(rows["name"], rows["parent"])]
"""

LIGHTNING = GUARD + """
import lightning.pytorch as pl
class Model(pl.LightningModule):
    def __init__(self, fails_at=None): super().__init__(); self.layer = torch.nn.Linear(8, 1); self.fails_at = fails_at
    def training_step(self, batch, i):
        if i == self.fails_at: raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        loss = self.layer(batch).pow(2).mean(); self.log("loss", loss); time.sleep(0.01); return loss
    def validation_step(self, batch, i): self.log("val_loss", self.layer(batch).pow(2).mean())
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.01)
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 240
    def __getitem__(self, i): time.sleep(0.005); return torch.randn(8)
def trainer(*callbacks, **options):
    return pl.Trainer(max_epochs=2, callbacks=list(callbacks), enable_progress_bar=False, enable_model_summary=False,
                      enable_checkpointing=False, log_every_n_steps=5, default_root_dir=str(FOLDER), accelerator="cpu", **options)
loader = torch.utils.data.DataLoader(Slow(), batch_size=4)
quick = torch.utils.data.DataLoader(torch.randn(40, 8), batch_size=4)
"""


@full
def test_lightning(program):
    program.run(LIGHTNING + """
cb = hiwater.callbacks.Lightning(every=0.5, output="a.hiw")
t = trainer(cb, logger=pl.loggers.CSVLogger("csv"))
t.fit(Model(), loader, quick)
run = cb.run
assert run.warnings == [], run.warnings
assert nesting(run) == [("fit", None), ("sanity check", "fit"), ("epoch", "fit"), ("validation", "epoch"), ("epoch", "fit"),
                        ("validation", "epoch")], nesting(run)
assert [p.facts for p in run.summary.phases if p.name == "epoch"] == [{"epoch": 0}, {"epoch": 1}]
assert all(p.end_s is not None and p.peak_exact for p in run.summary.phases)
assert series(run, "steps").sum == 120
assert series(run, "loss").n == 24 and series(run, "val_loss").n == 2 and series(run, "loss").last_step == 119
wait, step = series(run, "data_wait").sum, series(run, "step_time").sum
assert 120 * 0.02 <= wait < step - 120 * 0.01, (wait, step)
rows = open(os.path.join(t.logger.log_dir, "metrics.csv")).read().splitlines()
place = rows[0].split(",").index("hiwater/ram_gib")
ram = [float(r.split(",")[place]) for r in rows[1:] if r.split(",")[place]]
assert len(ram) >= 3 and all(0.05 < x < 8 for x in ram), ram
assert [type(x).__name__ for x in t.loggers] == ["CSVLogger"]
assert touched == [] and not run.is_running
""")


@full
def test_lightning_in_a_run_that_measures_already(program):
    """The training is not stopped; an out-of-memory exception is recorded and raised; a copy for
    another process does nothing."""
    program.run(LIGHTNING + """
import copy, pickle
with hiwater.track(output="a.hiw") as run:
    cb = hiwater.callbacks.Lightning()
    assert pickle.loads(pickle.dumps(cb)).run.is_running is False and copy.deepcopy(cb) is not cb
    try: trainer(cb, logger=False).fit(Model(fails_at=7), quick)
    except torch.OutOfMemoryError as e: assert "Tried" in str(e)
    else: raise AssertionError
    assert cb.run is run and run.is_running
    trainer(cb, logger=False).fit(Model(), quick)
events = run.recording.columns("event")
assert [t for k, t in zip(events["kind"], events["text"]) if k == "trigger" and "Tried to allocate 2.00" in t]
assert [p.name for p in run.summary.phases] == ["fit", "epoch", "fit", "epoch", "epoch"]
assert all(p.end_s is not None for p in run.summary.phases) and run.warnings == [] and touched == []
assert series(run, "loss").n == 2  # at the ends of epochs: no logger, nothing else is a number by then
""")


@full
def test_transformers(program):
    program.run(GUARD + """
import transformers
transformers.utils.logging.set_verbosity_error()
class Model(torch.nn.Module):
    def __init__(self): super().__init__(); self.layer = torch.nn.Linear(8, 1)
    def forward(self, x, labels=None):
        time.sleep(0.01); y = self.layer(x); return {"loss": (y - labels).pow(2).mean(), "logits": y}
data = [{"x": torch.randn(8), "labels": torch.randn(1)} for _ in range(400)]
cb = hiwater.callbacks.HuggingFace(every=0.5, output="a.hiw")
args = transformers.TrainingArguments("out", num_train_epochs=2, per_device_train_batch_size=4, logging_steps=10, report_to=[],
                                      disable_tqdm=True, eval_strategy="epoch", save_strategy="no", use_cpu=True)
t = transformers.Trainer(Model(), args, train_dataset=data, eval_dataset=data[:40], callbacks=[cb])
t.remove_callback(transformers.PrinterCallback)
t.train()
run = cb.run
assert run.warnings == [] and touched == [] and not run.is_running
assert nesting(run) == [("train", None), ("epoch", "train"), ("epoch", "train")]
assert [p.facts["epoch"] for p in run.summary.phases[1:]] == [0, 1]
assert series(run, "steps").sum == 200 and series(run, "loss").n == 20 and series(run, "loss").last_step == 200
assert series(run, "eval_loss").n == 2
events = run.recording.columns("event")
assert list(events["text"]).count("evaluated") == 2
assert sum("hiwater/ram_gib" in row for row in t.state.log_history) >= 2, t.state.log_history
assert not any(name.startswith("hiwater/") for name in run.summary.series)
""")


@full
def test_keras(program):
    program.run(GUARD + """
import keras, numpy as np
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("sgd", "mse")
cb = hiwater.callbacks.Keras(output="a.hiw")
x, y = np.random.randn(3000, 8), np.random.randn(3000, 1)
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None): time.sleep(0.005)
h = model.fit(x, y, epochs=3, verbose=0, batch_size=16, validation_split=0.2, callbacks=[cb, Slow()])
run = cb.run
assert run.warnings == [] and touched == [] and not run.is_running
assert nesting(run) == [("fit", None)] + [("epoch", "fit"), ("validation", "epoch")] * 3
assert series(run, "steps").sum == 450 and series(run, "loss").n == 3 and series(run, "loss").last_step == 450
assert abs(series(run, "loss").last - h.history["loss"][-1]) < 1e-9
assert len(h.history["hiwater/ram_gib"]) == 3 and h.history["hiwater/ram_gib"][-1] > 0.05, h.history
again = model.fit(x[:64], y[:64], epochs=1, verbose=0, callbacks=[hiwater.callbacks.Keras()])
assert len(again.history["hiwater/ram_gib"]) == 1
""")


TORCH = GUARD + """
loader = torch.utils.data.DataLoader(torch.randn(400, 8), batch_size=4)
model = torch.nn.Linear(8, 1)
def train(batches):
    for batch in batches:
        loss = model(batch).pow(2).mean(); loss.backward(); time.sleep(0.005)
    return loss
"""


@full
def test_plain_torch(program):
    program.run(TORCH + """
with hiwater.track(output="a.hiw") as run:
    for epoch, batches in hiwater.callbacks.epochs(3, loader):
        run.log(loss=train(batches), step=epoch)
assert [(p.name, p.facts) for p in run.summary.phases] == [("epoch", {"epoch": i}) for i in range(3)]
assert series(run, "steps").sum == 300 and series(run, "step_time").sum >= 300 * 0.005
for epoch, batches in hiwater.callbacks.epochs(2, loader, output="b.hiw"):
    train(batches)
    break
own = hiwater.last()
assert own.path.endswith("b.hiw") and own.summary.run.complete and own.summary.phases[0].end_s is not None
assert touched == [] and run.warnings == own.warnings == []
""")


@full
def test_sinks(program):
    """The readers of the trackers find the figures."""
    program.run(TORCH + """
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=str(FOLDER), MLFLOW_DISABLE_AGENT_SKILLS_NOTICE="1")
import mlflow, wandb
mlflow.set_tracking_uri(f"sqlite:///{FOLDER}/mlflow.db")
mlflow.set_experiment("e")
active = mlflow.start_run()
w = wandb.init(project="p")
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(str(FOLDER / "own"))
sinks = [hiwater.sinks.TensorBoard(FOLDER / "tb"), hiwater.sinks.TensorBoard(writer), hiwater.sinks.MLflow(), hiwater.sinks.WandB()]
with hiwater.track() as run:
    for sink in sinks: run.add_sink(sink, every=0.2)
    for epoch, batches in hiwater.callbacks.epochs(4, loader, run=run):
        run.log(loss=train(batches), step=epoch)
        w.log({"loss": 1.0})
assert run.warnings == [], run.warnings
writer.close()
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
for folder in ("tb", "own"):
    events = EventAccumulator(str(FOLDER / folder)).Reload()
    tags = events.Tags()["tensors" if folder == "tb" else "scalars"]
    assert {"hiwater/ram_gib", "hiwater/cpu_cores", "hiwater/step_s", "hiwater/peak_ram_gib"} <= set(tags), tags
    steps = [e.step for e in (events.Tensors if folder == "tb" else events.Scalars)("hiwater/ram_gib")]
    assert steps == sorted(steps) and len(steps) >= 2 and steps[-1] == 3, steps
client = mlflow.MlflowClient()
history = client.get_metric_history(active.info.run_id, "hiwater/ram_gib")
assert len(history) >= 2 and all(0.05 < m.value < 8 for m in history)
peak = client.get_run(active.info.run_id).data.metrics["hiwater/peak_ram_gib"]
assert abs(peak - run.summary.ram_peak_bytes / (1 << 30)) < 1e-6
local = client.download_artifacts(active.info.run_id, "hiwater/summary.json", str(FOLDER))
assert json.load(open(local)) == run.summary.to_dict()
mlflow.end_run()
assert w.summary["hiwater/peak_ram_gib"] == peak
assert any(k == "hiwater/ram_gib" for k in dict(w.summary)), dict(w.summary)
w.finish()
assert touched == []
""", quiet=False)
    assert not [line for line in program.stderr.splitlines() if "Error" in line], program.stderr


# ---- without real frameworks ----------------------------------------------------------------------------------------------

def test_a_sink_that_fails_costs_its_figures_only(program):
    program.run("""
        class Good:
            def __init__(self): self.got, self.ended = [], []
            def write(self, figures, step): self.got.append((figures, step))
            def end(self, summary): self.ended.append(summary)
        class Bad(Good):
            def write(self, figures, step): self.got.append(1); raise OSError("disk full")
        good, bad, early = Good(), Bad(), Good()
        with hiwater.track() as run:
            for sink in (good, bad, early): run.add_sink(sink, every=0.2)
            block = fill(100)
            for i in range(25):
                run.log(loss=i, step=i); time.sleep(0.1)
                if i == 15: run.remove_sink(early)
        assert len(bad.got) == 1 and bad.ended == [] and any("Bad gets no more figures: OSError: disk full" in w for w in run.warnings)
        assert len(good.got) >= 2 and good.got[-1][1] == 24 and len(good.ended) == 1 and good.ended[0].run.complete
        assert early.ended == [] and early.got
        assert max(f["hiwater/ram_gib"] for f, _ in good.got) >= 100 / 1024
        assert all(0 <= f.get("hiwater/cpu_cores", 0) < 3 for f, _ in good.got), good.got
        with hiwater.track(record=False) as run:
            quiet = Good()
            run.add_sink(quiet, every=0)
            for i in range(3): run.log(loss=i)
        assert quiet.got == [] and len(quiet.ended) == 1
    """)


def test_no_hook_raises(program):
    """Works with any arguments of a framework, and without a recorder. Losses on a device are not
    read."""
    program.env["PYTHONWARNINGS"] = "ignore"
    program.run("""
        import types
        base = types.ModuleType("transformers"); base.TrainerCallback = object; sys.modules["transformers"] = base
        class OnDevice:
            device = types.SimpleNamespace(type="cuda")
            def __float__(self): raise AssertionError("the device was waited for")
            item = numel = __float__
        class OnHost(OnDevice):
            device = types.SimpleNamespace(type="cpu")
            def numel(self): return 1
            def __float__(self): return 0.5
        cb = hiwater.callbacks.HuggingFace()
        cb.on_train_begin(None, types.SimpleNamespace(epoch=0, global_step=0, log_history=[]), None)
        state = types.SimpleNamespace(epoch=0.0, global_step=3, log_history=[])
        cb.on_log(None, state, None, logs={"loss": OnDevice(), "host": OnHost(), "n": 2, "text": "x", "flag": True, "a b": 1.5})
        for name in [n for n in dir(cb) if n.startswith("on_") and n != "on_train_begin"]:
            getattr(cb, name)(None, None, None)
        state = types.SimpleNamespace(epoch=1.0, global_step=3, log_history=[])
        cb.on_train_end(None, state, None)
        s = cb.run.summary
        assert set(s.series) == {"host", "n", "a_b", "data_wait", "step_time", "steps"} and s.series["host"].last == 0.5, s.series
        assert any("on_log: AttributeError" in w for w in cb.run.warnings), cb.run.warnings

        COMMAND = os.environ["HIWATER_COMMAND"]
        os.environ["HIWATER_COMMAND"] = "/nowhere/hiwater"
        cb = hiwater.callbacks.HuggingFace()
        cb.on_train_begin(None, state, None); cb.on_epoch_begin(None, state, None); cb.on_step_begin(None, state, None)
        cb.on_step_end(None, state, None); cb.on_log(None, state, None, logs={"loss": 1.0}); cb.on_train_end(None, state, None)
        assert any("/nowhere/hiwater" in w for w in cb.run.warnings)
        assert [len(list(batches)) for _, batches in hiwater.callbacks.epochs(2, range(3))] == [3, 3]

        base = types.ModuleType("lightning.pytorch"); base.Callback = object
        loggers = types.ModuleType("lightning.pytorch.loggers"); loggers.Logger = object
        sys.modules.update({"lightning": types.ModuleType("lightning"), base.__name__: base, loggers.__name__: loggers})
        class Broken:
            def log_metrics(self, *_, **__): raise RuntimeError("mine")
        os.environ["HIWATER_COMMAND"] = COMMAND
        cb = hiwater.callbacks.Lightning(output="l.hiw", every=0)
        trainer = types.SimpleNamespace(loggers=[Broken()], global_step=1, current_epoch=0, callback_metrics={})
        cb.setup(trainer, None, "fit")
        cb.session.step_begins(); cb.on_train_batch_end(trainer, None, None, None, 0)
        assert cb.session._waiting_since is not None
        cb.session.figures = lambda is_last: {"x": 1.0}
        cb.teardown(trainer, None, "fit")
        while recorders(): time.sleep(0.01)
        assert not cb.run.is_running and [type(x) for x in trainer.loggers] == [Broken]
        assert any("teardown: RuntimeError: mine" in w for w in cb.run.warnings), cb.run.warnings
    """)


def test_nothing_is_imported_for_them(program):
    program.run("""
        hiwater.callbacks.epochs; hiwater.sinks.TensorBoard
        assert {"HuggingFace", "Keras", "Lightning"} <= set(dir(hiwater.callbacks))
        assert not {"torch", "lightning", "transformers", "keras", "tensorboard", "mlflow", "wandb", "numpy", "pandas"} & set(sys.modules)
        for make, words in ((lambda: hiwater.sinks.MLflow(), "mlflow"), (lambda: hiwater.sinks.WandB(), "wandb")):
            sys.modules[words] = None  # not installed
            try: make()
            except hiwater.Error as e: assert words in str(e) and "pip install" in str(e), e
            else: raise AssertionError
        try: hiwater.callbacks.Nothing
        except AttributeError: pass
        else: raise AssertionError
    """)


def test_how_long_it_waits(program):
    """Of the time between batches, validation is not a wait for data."""
    [told] = program.run("""
        from hiwater.callbacks._session import Session
        with hiwater.track(record=False) as run:
            s = Session(None, None, (), 10.0, {})
            s.begin(); s.enter("epoch"); s.loop_begins()
            for i in range(20):
                time.sleep(0.02)
                s.step_begins(); time.sleep(0.01); s.step_ends()
                if i == 10: s.enter("validation"); time.sleep(1); s.leave("validation")
            s.end()
        series = run.summary.series
        tell(wait=series["data_wait"].sum, time=series["step_time"].sum, steps=series["steps"].sum)
    """)
    assert told["steps"] == 20 and 19 * 0.02 <= told["wait"] < 0.9, told
    assert told["wait"] + 20 * 0.01 <= told["time"] + 1e-6 < 1.4, told
