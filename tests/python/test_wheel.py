# SPDX-License-Identifier: MIT
"""The wheel, for a user without root and without our libraries."""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(600)  # a wheel for any Linux compiles everything with another compiler
LIBC = {"linux-vdso.so.1", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, check=False, **options)
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout}"
    return done.stdout


def copy_of_source(folder):
    """A build must not write into the source tree, which another build may use."""
    ignore = shutil.ignore_patterns("build*", ".venv*", ".git", ".cache", "dist", "__pycache__")
    return shutil.copytree(ROOT, folder / "source", ignore=ignore, symlinks=True)


def built(how, folder):
    """The path of the wheel."""
    dist = folder / ("dist-for-any" if how == "for any Linux" else "dist")
    if how == "for any Linux":
        if not (ROOT / ".venv-wheel").exists():
            pytest.fail("no .venv-wheel: run make test-full")
        source = copy_of_source(folder)
        (source / ".venv-wheel").symlink_to(ROOT / ".venv-wheel")
        run(source / "tools" / "make-wheel", dist)
    else:
        env = dict(os.environ, PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
        run(sys.executable, "-m", "pip", "wheel", "-q", copy_of_source(folder), "--no-deps", "--no-build-isolation",
            "-w", dist, "-Csetup-args=-Dstatic_deps=true", "-Csetup-args=-Dbuildtype=plain", env=env)
    wheels = list(dist.glob("*.whl"))
    assert len(wheels) == 1
    assert how != "for any Linux" or wheels[0].stat().st_size < 6 << 20, "stripped"
    return wheels[0]


@pytest.fixture(scope="module", params=["for this system", pytest.param("for any Linux", marks=pytest.mark.full)])
def wheel(request, tmp_path_factory):
    return built(request.param, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A virtual environment with the wheel installed, made without a network."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "-q", "--no-index", wheel)
    return folder


def libraries(program):
    return {re.match(r"\s*(\S+)", line)[1] for line in run("ldd", program).splitlines() if "/ld-linux" not in line}


@pytest.fixture
def bare_root(installed, tmp_path):
    """A file system with the C library, a shell, true, and the programs of the wheel."""
    if not shutil.which("bwrap"):
        pytest.skip("bwrap is not installed")
    shell = "/bin/dash" if pathlib.Path("/bin/dash").exists() else "/bin/sh"
    programs = {shell: "bin/sh", shutil.which("true"): "bin/true", installed / "bin" / "hiwater": "usr/bin/hiwater",
                installed / "bin" / "hiwater-top": "usr/bin/hiwater-top"}
    for source, target in programs.items():
        (tmp_path / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, tmp_path / target)
        for line in run("ldd", source).splitlines():
            found = re.search(r"(/\S+)", line)
            if found:
                library = tmp_path / found[1].lstrip("/")
                library.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found[1], library)
    for name in ("dev", "home", "proc", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path


def in_bare_root(root, *command):
    options = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--uid", "1000", "--gid", "1000",
               "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home",
               "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/home", "--die-with-parent"]
    return subprocess.run([str(c) for c in (*options, *command)], capture_output=True, text=True, timeout=60,
                          check=False)


def test_holds_a_native_command(wheel):
    with zipfile.ZipFile(wheel) as archive:
        command = next(n for n in archive.namelist() if n.endswith(".data/scripts/hiwater"))
        assert archive.read(command)[:4] == b"\x7fELF"
        tags = next(archive.read(n).decode() for n in archive.namelist() if n.endswith("/WHEEL"))
    here = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert f"{'cp39' if 'dist-for-any' in str(wheel) else here}-abi3-" in tags, "for this Python and all later ones"


def test_its_extension_module_is_on_the_limited_api(wheel):
    """Checked with abi3audit: it needs only the limited API of Python 3.9."""
    judge = shutil.which("abi3audit", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
    assert judge, "no abi3audit: run make deps-test"
    said = run(judge, "--strict", "--verbose", "--assume-minimum-abi3", "3.9", wheel)
    assert "2 extensions scanned" in " ".join(said.split()), said


def test_command_needs_the_c_library_alone(installed):
    assert libraries(installed / "bin" / "hiwater") <= LIBC
    assert libraries(installed / "bin" / "hiwater-top") <= LIBC


def test_extension_module_needs_the_c_library_alone(installed):
    [core] = installed.glob("lib/python*/site-packages/hiwater/_core.abi3.so")
    assert libraries(core) <= LIBC
    said = run(installed / "bin" / "python", "-c", "from hiwater._native import Pushes; print(Pushes(('a',), 9).stats()[0])")
    assert said == "0\n"


def test_package_knows_its_command(installed):
    said = run(installed / "bin" / "python", "-c", "import hiwater; print(hiwater.__version__, hiwater.command())")
    version = run(installed / "bin" / "hiwater", "--version")
    assert said.split()[1] == str(installed / "bin" / "hiwater")
    assert said.split()[0] in version


def test_package_measures(installed, tmp_path):
    """The installed command needs no other file."""
    text = "with hiwater.track(output='a.hiw') as run: b = b'x' * (100 << 20)\nprint(run.summary.ram_peak_bytes >> 20)"
    said = run(installed / "bin" / "python", "-c", "import hiwater\n" + text, cwd=tmp_path)
    assert int(said) >= 100
    said = run(installed / "bin" / "python", "-c", "import hiwater; print(hiwater.open('a.hiw').is_complete)", cwd=tmp_path)
    assert said == "True\n"


def test_other_packages_by_name_are_in_it(installed, tmp_path):
    """Without any other package: a Tracker, and the command from the folder for the PATH."""
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    text = """
import hiwater.compat.gpu_tracker as gput, hiwater.compat.gpu_tracker_2 as gput2
with gput.Tracker(tracking_file="t.csv", disable_logs=True), gput2.Tracker() as old: b = b"x" * (100 << 20)
print(old.max_ram.main.total_rss > 0.1, sum(1 for _ in open("t.csv")) > 3)"""
    assert run(installed / "bin" / "python", "-c", text, cwd=tmp_path, env=env) == "True True\n"
    for package in ("gpu_tracker", "gpu_tracker_2"):
        folder = run(installed / "bin" / "python", "-m", "hiwater.compat", "bin", package, env=env).strip()
        said = run(pathlib.Path(folder) / "gpu-tracker", "-e", "sh -c 'echo from the job'", env=env)
        assert "from the job" in said and "status code: 0" in said and "Max RAM:" in said


def test_runs_for_anybody_without_our_libraries(bare_root):
    nothing_of_ours = [p for p in bare_root.rglob("*") if re.match(r"lib(sqlite3|z|python)", p.name)]
    assert nothing_of_ours == []
    done = in_bare_root(bare_root, "hiwater", "run", "--", "true")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "RAM" in done.stderr, done.stderr


def test_records_for_anybody_without_our_libraries(bare_root):
    """SQLite is linked in: a recording is written, and read back."""
    script = "hiwater run -o /tmp/a.hiw --summary none -- sh -c 'exit 3'; test $? = 3 && hiwater show /tmp/a.hiw"
    done = in_bare_root(bare_root, "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert "RAM" in done.stdout + done.stderr


def test_shows_for_anybody_without_our_libraries(bare_root):
    """The live view is included, too."""
    assert not [p for p in bare_root.rglob("*") if re.match(r"lib(ncurses|tinfo)", p.name)]
    done = in_bare_root(bare_root, "hiwater", "top", "-n", "2", "-i", "100ms")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^RAM \S+ of ", done.stdout, re.M) and re.search(r"^ +PID ", done.stdout, re.M)


@pytest.mark.parametrize("program", ["hiwater", "hiwater-top"])
def test_asks_for_no_later_c_library_than_it_says(wheel, tmp_path, program):
    """The wheel of make-wheel needs no symbol of glibc after 2.17."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    command = next(tmp_path.glob(f"*.data/scripts/{program}"))
    wanted = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", run("readelf", "-V", command))}
    said = re.search(r"manylinux_(\d+)_(\d+)_", wheel.name)
    here = tuple(map(int, platform.libc_ver()[1].split(".")))
    assert max(wanted) <= (tuple(map(int, said.groups())) if said else here)
    if "dist-for-any" in str(wheel):
        assert said.groups() == ("2", "17")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """The path of the wheel for aarch64, built on another machine, and its unpacked files."""
    if platform.machine() == "aarch64":
        pytest.skip("this machine is one: its wheel is tested above")
    folder = tmp_path_factory.mktemp("aarch64")
    source = copy_of_source(folder)
    (source / ".venv-wheel").symlink_to(ROOT / ".venv-wheel")
    run(source / "tools" / "make-wheel", folder / "dist", "aarch64")
    [wheel] = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "files")
    for program in (folder / "files").glob("*.data/scripts/hiwater*"):
        program.chmod(0o755)
    return wheel, folder / "files"


@pytest.mark.full
def test_the_wheel_for_aarch64(foreign):
    wheel, files = foreign
    assert re.search(r"-cp39-abi3-manylinux.*_2_17_aarch64", wheel.name), wheel.name
    assert wheel.stat().st_size < 6 << 20, "stripped"
    programs = [*files.glob("*.data/scripts/hiwater*"), *files.glob("**/_core.abi3.so")]
    assert len(programs) == 3, programs
    for program in programs:
        said = run("readelf", "-h", "-S", program)
        assert "AArch64" in said and ".symtab" not in said, program
    judge = shutil.which("abi3audit", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
    assert "2 extensions scanned" in " ".join(run(judge, "--strict", "--verbose", "--assume-minimum-abi3", "3.9", wheel).split())


@pytest.mark.full
def test_its_command_runs_on_aarch64(foreign, tmp_path):
    """Under qemu-user, which emulates its system calls; the job is a program of this machine."""
    _, files = foreign
    [hiwater] = files.glob("*.data/scripts/hiwater")
    # By the loader's own options: with qemu's -L, / would be that folder, without /proc.
    lib = "/usr/aarch64-linux-gnu/lib"
    emulated = ["qemu-aarch64", f"{lib}/ld-linux-aarch64.so.1", "--library-path", lib, hiwater]
    assert re.match(r"hiwater \d", run(*emulated, "--version"))
    run(*emulated, "run", "-o", "a.hiw", "--gpu=none", "--summary", "none", "--", "sh", "-c", "sleep 0.3", cwd=tmp_path)
    said = run(*emulated, "show", "a.hiw", cwd=tmp_path)
    assert "exit 0" in said and "RAM" in said, said


@pytest.mark.full
def test_build_says_what_is_missing(tmp_path):
    """Without the headers of SQLite, the error of pip install names them and the remedy."""
    env = dict(os.environ, PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
               PKG_CONFIG_LIBDIR=str(tmp_path), CMAKE_PREFIX_PATH="")
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", str(copy_of_source(tmp_path)), "--no-deps",
                           "--no-build-isolation", "-w", str(tmp_path)], env=env, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode != 0
    assert re.search(r"SQLite headers.*libsqlite3-dev zlib1g-dev", done.stdout + done.stderr, re.S)
