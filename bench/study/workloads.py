# SPDX-License-Identifier: MIT
"""The workloads of the study."""
import dataclasses
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "truth"))


@dataclasses.dataclass
class Workload:
    name: str
    command: list       # of the job
    program: list = ()  # the Python program with its arguments; (): it is none
    has_epochs: bool = True
    size: str = ""      # in words


def python(script, *arguments):
    return [HERE / f"{script}.py", *map(str, arguments)]


def training(name, size, program):
    return Workload(name, [sys.executable, *program], program, size=size)


def workloads(quick, folder):
    """The workloads, with what they need made in the folder."""
    folder = pathlib.Path(folder)
    light_epochs, light_images = (3, 640) if quick else (5, 7188)
    project = folder / "project"
    models = folder / "models"
    chosen = [training("light", f"{light_epochs} epochs of {light_images} images", python("light", light_epochs, light_images))]
    if not quick:
        chosen.append(training("heavy", "5 epochs of 10 steps", python("heavy", 5, 10)))
        subprocess.run([sys.executable, ROOT / "examples" / "models" / "prepare.py", models], check=True, stdout=subprocess.DEVNULL)
        chosen.append(training("trees", "5 times 20 boosting rounds", python("trees", models, 5, 20)))
    if shutil.which("make") and shutil.which("gcc"):
        import truth_jobs

        files = 50 if quick else 240
        if not project.exists():
            truth_jobs.generate_project(project, files)
        chosen.append(Workload("many", ["make", "-j2", "-s", "-B", "-C", project], has_epochs=False,
                               size=f"{files} files"))
    return chosen
