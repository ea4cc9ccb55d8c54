# SPDX-License-Identifier: MIT
"""Nested, concurrent and overlapping runs: recursion, coroutines, generators, threads, forks,
workers of data loaders."""
import pytest
from track_helpers import MIB


def test_a_decorated_function_may_call_itself(program):
    program.run("""
        @hiwater.track
        def down(n):
            if n: down(n - 1)
            return hiwater.current()
        runs = down(2)
        assert hiwater.current() is None and hiwater.last() is not None and hiwater.last().summary.run.complete
        run = hiwater.track()
        with run:
            assert hiwater.current() is run
            try: run.start()
            except hiwater.Error as e: assert "already" in str(e)
            else: raise AssertionError
            assert run.is_running
        first = run.summary.run.id
        with run: pass
        assert run.summary.run.id != first, "started again it is a new one"
        run.stop(); run.stop()
    """)


def test_coroutines_at_once(program):
    """Each call is a separate run, also if it raises or is cancelled."""
    [told] = program.run("""
        import asyncio
        walls = {}
        def job(name, seconds, fails=False):
            @hiwater.track(name, interval=0.02)
            async def work():
                run = hiwater.current()
                try:
                    await asyncio.sleep(seconds)
                    if fails: raise KeyError(name)
                finally:
                    walls[name] = run
            return work()
        async def main():
            long = asyncio.ensure_future(job("cancelled", 100))
            done = await asyncio.gather(job("a", 0.6), job("b", 0.2), job("c", 0.4, True), return_exceptions=True)
            long.cancel()
            try: await long
            except asyncio.CancelledError: pass
            return done
        done = asyncio.run(main())
        assert isinstance(done[2], KeyError) and hiwater.current() is None
        assert all(r.summary.run.complete and r.summary.run.name == n for n, r in walls.items()), walls
        tell(**{n: r.summary.wall_s for n, r in walls.items()})
    """)
    assert told["b"] < told["c"] < told["a"] and told["a"] >= 0.6 and told["cancelled"] >= 0.6


def test_generators_end_their_runs(program):
    """Generators that are exhausted, left early, thrown into, sent to; asynchronous ones as
    well."""
    program.run("""
        import asyncio, inspect
        @hiwater.track
        def numbers():
            got = yield 1
            try: yield got
            except ValueError: yield "caught"
        assert inspect.isgeneratorfunction(numbers)
        g = numbers()
        assert hiwater.current() is None and next(g) == 1 and hiwater.current() is not None
        assert g.send(5) == 5 and g.throw(ValueError()) == "caught"
        g.close()
        assert hiwater.current() is None and hiwater.last().summary.run.name == "numbers"
        for n in numbers(): break
        del n
        import gc; gc.collect()
        assert hiwater.current() is None

        @hiwater.track("later")
        async def later():
            for i in range(3):
                await asyncio.sleep(0.05)
                yield i
        async def main():
            assert [i async for i in later()] == [0, 1, 2]
            async for i in later(): break
        assert inspect.isasyncgenfunction(later)
        asyncio.run(main())
        assert hiwater.current() is None and hiwater.last().summary.run.name == "later"
    """)


def test_threads_start_and_stop_in_any_order(program):
    program.run("""
        import random
        runs, errors = [], []
        def work(k):
            try:
                run = hiwater.track(f"t{k}", record=False).start()
                with run.phase("p"): time.sleep(random.random() / 5)
                threading.Thread(target=run.stop).start() if k % 2 else run.stop()
                runs.append(run)
            except BaseException as e: errors.append(e)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        end = time.monotonic() + 30
        while hiwater.current() and time.monotonic() < end: time.sleep(0.01)
        assert not errors and len(runs) == 8
        assert all(r.summary.run.complete and r.summary.phases[0].end_s is not None for r in runs)
    """)


def test_a_child_forked_beside_our_threads_does_not_hang(program):
    """A fork while the framework thread works; sinks, phases and logged values belong to the
    parent."""
    program.run("""
        import types
        torch = types.ModuleType("torch")
        torch.version = types.SimpleNamespace(cuda="13.0", hip=None)
        torch.cuda = types.SimpleNamespace(is_initialized=lambda: False)
        sys.modules["torch"] = torch
        class Sink:
            def __init__(self): self.got = []
            def write(self, figures, step): self.got.append(os.getpid())
            def end(self, summary): self.got.append(os.getpid())
        sink = Sink()
        with hiwater.track() as run:
            assert [t.name for t in threading.enumerate()] == ["MainThread", "hiwater-frameworks"]
            run.add_sink(sink, every=0)
            time.sleep(1.2)
            children = []
            for i in range(5):
                pid = os.fork()
                if pid == 0:
                    assert threading.active_count() == 1 and hiwater.current() is None
                    run.log(loss=1); run.live(); run.oom("x")
                    with run.phase("child"): pass
                    with hiwater.track(record=False) as own: pass
                    os._exit(0 if own.summary.run.complete and sink.got == [] else 1)
                children.append(pid)
            assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 5
            run.log(loss=2)
        assert run.summary.series["loss"].n == 1 and run.summary.phases == [] and run.summary.incident is None
        assert set(sink.got) == {os.getpid()}
        assert threading.active_count() == 1 or time.sleep(1.5) or threading.active_count() == 1
    """)


def test_what_is_going_on_at_exit_ends(program):
    """Runs that were not stopped: nested, with an open phase, a working thread and a sink."""
    process = program.start("""
        class Sink:
            def write(self, figures, step): pass
            def end(self, summary): (FOLDER / "ended").write_text(str(summary.run.complete))
        outer = hiwater.start(output="outer.hiw")
        outer.add_sink(Sink())
        inner = hiwater.start(output="inner.hiw")
        inner.phase("open").__enter__()
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        time.sleep(0.2)
    """)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0 and stderr == "", stderr
    for name in ("outer.hiw", "inner.hiw"):
        assert program.shown(name)["run"]["complete"]
    assert program.shown("inner.hiw")["phases"][0]["end_s"] is not None
    assert (program.folder / "ended").read_text() == "True"


@pytest.mark.full
@pytest.mark.frameworks
@pytest.mark.timeout(300)
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_data_loader(program, method):
    """Their memory counts, their messages are not recorded in the run, and they end as usual."""
    [told] = program.run(f"""
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        import torch
        class Data(torch.utils.data.Dataset):
            def __init__(self, run): self.run, self.held = run, None
            def __len__(self): return 60
            def __getitem__(self, i):
                if self.held is None: self.held = fill(100)
                self.run.log(worker=1); self.run.mark("worker")
                with self.run.phase("worker"): pass
                time.sleep(0.02)
                return torch.full((4,), float(i))
        if __name__ == "__main__":
            with hiwater.track(interval=0.02, output="a.hiw") as run:
                loader = torch.utils.data.DataLoader(Data(run), batch_size=4, num_workers=2, multiprocessing_context={method!r})
                total = 0.0
                for epoch, batches in hiwater.callbacks.epochs(1, loader):
                    for batch in batches: total += float(batch.sum())
            s = run.summary
            tell(total=total, rest=s.ram.descendants.peak_bytes, seen=s.processes.seen, series=sorted(s.series),
                 phases=[p.name for p in s.phases], complete=s.run.complete, job=s.phases[0].ram.job_peak_bytes,
                 main=s.phases[0].ram.peak_bytes)
    """)
    assert told["total"] == 4 * sum(range(60)) and told["complete"]
    assert told["rest"] >= 200 * MIB and told["seen"] >= 3
    assert told["job"] >= told["main"] + 150 * MIB
    assert told["series"] == ["data_wait", "step_time", "steps"] and told["phases"] == ["epoch"]


@pytest.mark.full
@pytest.mark.frameworks
@pytest.mark.timeout(300)
def test_workers_of_scikit_learn(program):
    """Processes of joblib, which outlive the call, belong to the run: memory, CPU time, and the
    logged score."""
    [told] = program.run("""
        import warnings; warnings.simplefilter("ignore")
        import numpy as np
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.model_selection import GridSearchCV
        if __name__ == "__main__":
            X = np.random.default_rng(0).normal(size=(1000, 20))
            with hiwater.track(output="a.hiw") as run:
                with run.phase("search"):
                    search = GridSearchCV(RandomForestClassifier(n_estimators=20), {"max_depth": [2, 4]}, cv=2, n_jobs=2)
                    search.fit(X, X.sum(axis=1) > 0)
                run.log(accuracy=search.best_score_)
            s = run.summary
            tell(seen=s.processes.seen, rest=s.ram.descendants.peak_bytes, main=s.ram.main.peak_bytes, all=s.ram_peak_bytes,
                 busy=sum(p.cpu_s > 0.2 for p in s.processes.list), accuracy=bool(s.series["accuracy"].last == search.best_score_),
                 job=s.phases[0].ram.job_peak_bytes, warnings=run.warnings)
    """)
    assert told["seen"] >= 3 and told["busy"] >= 2 and told["accuracy"] and told["warnings"] == []
    assert told["all"] > told["main"] and told["rest"] >= 100 * MIB and told["job"] >= told["main"] + 50 * MIB
