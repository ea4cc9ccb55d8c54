# SPDX-License-Identifier: MIT
"""Executes the notebook of examples/: every cell works, and its statements are true."""
import csv
import shutil

import pytest
from track_helpers import MIB, ROOT

pytestmark = [pytest.mark.full, pytest.mark.frameworks, pytest.mark.timeout(600)]


def test_continuous_monitoring(program, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    for key, value in {**program.env, "CUDA_VISIBLE_DEVICES": "", "IPYTHONDIR": str(program.folder / "ipython")}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # with it, kernels do not forward the stderr of processes
    shutil.copy(ROOT / "examples" / "notebook" / "monitoring.ipynb", program.folder)
    monkeypatch.chdir(program.folder)
    nb = nbformat.read("monitoring.ipynb", 4)
    NotebookClient(nb, timeout=300).execute()
    cells = [cell for cell in nb.cells if cell.cell_type == "code"]
    said = ["".join(o.get("text", "") for o in cell.outputs) for cell in cells]

    def of(words):
        return next(i for i, cell in enumerate(cells) if words in cell.source)

    # The problems of the three loops.
    first = said[of("def monitor_resources")]
    assert "psutil: 1 sample" in first and "exact (VmHWM)" in first
    assert float(first.split("RAM peak of this process ")[1].split(" MiB")[0]) >= 500
    second = said[of("def monitor_gpu_once")]
    assert "here: FileNotFoundError" in second and "two GPUs: ValueError" in second and "[N/A]%" in second
    third = said[of("GPUStat()")]
    assert "TypeError" in third and " cores " in third.split("RAM ")[1]
    assert [i for i, cell in enumerate(cells) if "# hiwater instead" in cell.source] == [
        of("def monitor_resources"), of("def monitor_gpu_once"), of("GPUStat()")]
    # The recording and the files.
    shown = program.shown("training.hiw")
    assert shown["run"]["complete"] and shown["run"]["name"] == "training" and shown["series"]["loss"]["n"] == 120
    assert [p["name"] for p in shown["phases"]] == ["epoch", "test"] * 3 and all(p["ram"]["method"] == "exact" for p in shown["phases"])
    assert shown["ram"]["combined"]["peak_bytes"] >= 100 * MIB and shown["series"]["accuracy"]["last"] > 0.9
    with open("training.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    assert {"t_s", "loss", "accuracy", "cores", "ram_mib"} <= set(rows[0])
    assert sum(bool(row["loss"]) for row in rows) == 120 and any(float(row["ram_mib"]) > 100 for row in rows if row["ram_mib"])
    assert (program.folder / "job.csv").stat().st_size > 1000 and "<html" in (program.folder / "training.html").read_text()[:2000].lower()
    # The outputs of the cells.
    chart = [o for o in cells[of("%%hiwater")].outputs if "text/html" in o.get("data", {})]
    assert len(chart) == 1 and all(f">{name}<" in chart[0].data["text/html"] for name in ("loss", "accuracy", "CPU"))
    for words in ("recording.plot", "import seaborn"):
        assert any("image/png" in o.get("data", {}) for o in cells[of(words)].outputs), words
    assert "\x1b[" not in said[of("print(summary)")]
