# SPDX-License-Identifier: MIT
"""A typical user program, for mypy --strict."""
from typing import Optional

import hiwater


@hiwater.track
def whole(n: int) -> int:
    return n + 1


@hiwater.track("named", interval=0.01, alert=["ram > 1GiB"])
def named(text: str, *, times: int = 2) -> str:
    return text * times


def main() -> None:
    total = 0.0
    with hiwater.track("fit", interval="10ms", output="run.hiw", print_every=5) as run:
        for epoch in range(3):
            with run.phase("epoch", epoch=epoch):
                for batch in run.wrap_loader([1.0, 2.0]):
                    total += batch
                    run.step()
                run.log(loss=total, step=epoch)
                run.log({"val/loss": 0.5})
        run.mark("done")
    summary: hiwater.Summary = run.summary
    peak: Optional[int] = summary.ram_peak_bytes
    method: Optional[str] = summary.ram.combined.method
    for phase in summary.phases:
        exact: bool = phase.peak_exact
        print(phase.name, phase.facts.get("epoch"), phase.ram.peak_bytes, phase.wall_s, exact)
    print(peak, method, summary.series["loss"].last, summary)
    if summary.gpu:
        print([device.memory.peak_bytes for device in summary.gpu.devices])
    recording: hiwater.Recording = hiwater.open(run.path or "last")
    names = recording.columns("series")["name"]
    arrays = recording.arrays("job")
    sizes = arrays["ram"]
    if isinstance(sizes, memoryview):
        print(max(sizes.tolist()))
    print(whole(2) + 1, named("a", times=3).upper(), summary.to_json(), names, hiwater.__version__)
    started: hiwater.Run = hiwater.start("more", trace="ranges,kernels", trace_window=["steps=10-19", "60s+5s"])
    hiwater.step(3)
    started.trace(steps=range(10, 20))
    hiwater.stop()
    compared: hiwater.Comparison = hiwater.compare(run, started)
    ratio: Optional[float] = compared.figures["time.wall_s"][1].ratio
    print(compared.conclusion, ratio, [phase.label for phase in summary.phases])
    try:
        started.recording.to_pandas("gpu")
    except hiwater.Error as error:
        print(error)


if __name__ == "__main__":
    main()
