# SPDX-License-Identifier: MIT
"""--help, man pages and completions agree; error messages are complete sentences on one line."""
import re
import shutil
import subprocess

import pytest

COMMANDS = ["run", "attach", "top", "runs", "show", "check", "compare", "request", "export", "report", "trace", "where", "merge", "import", "collect", "mark", "gpus", "serve", "doctor"]


def options_of_help(text):
    """{"-o", "--output", ...} of a --help text."""
    found = set()
    for line in text.partition("\nOptions:\n")[2].splitlines():
        if re.match(r"  (-|    --)", line):
            found |= set(re.findall(r"(?<![\w-])(--?[\w-]+)", re.split(r"  +\S", line.strip() + "  x")[0].split("   ")[0]))
    return {o for o in found if len(o) > 2 or (len(o) == 2 and o != "--")}


def options_of_man(text):
    """The same of a man page in roff."""
    found = set()
    text = re.split(r"^\.SH ", text.partition("\n.SH OPTIONS\n")[2], flags=re.M)[0]
    for heading in re.findall(r"^\.TP\n(.*)$", text, re.M):
        found |= set(re.findall(r"(?<![\w-])(--?[\w-]+)", heading.replace("\\-", "-").replace("\\fB", " ").replace("\\fR", " ")))
    return {o for o in found if len(o) > 2 or (len(o) == 2 and o != "--")}


def test_help_of_a_command_as_some_type_it(tool):
    assert tool.run("help", "run").stdout == tool.run("run", "--help").stdout != ""
    assert tool.run("help", "help").stdout == tool.run("help", "--help").stdout == tool.run("--help").stdout
    unknown = tool.run("help", "rum")
    assert unknown.returncode == 125 and "did you mean hiwater run?" in unknown.stderr


def test_bare_and_help_list_the_commands(tool):
    for args in ([], ["--help"], ["-h"], ["help"]):
        done = tool.run(*args)
        assert done.returncode == 0
        assert re.findall(r"^  (\w+) ", done.stdout.partition("Commands:")[2].partition("Examples:")[0], re.M) == COMMANDS
        assert "_generate" not in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80


def test_version(tool):
    assert re.fullmatch(r"hiwater \d+\.\d+\.\d+\n", tool.run("--version").stdout)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_man_agree(tool, command):
    shown = tool.run(command, "--help")
    assert shown.returncode == 0 and shown.stderr == ""
    assert max(map(len, shown.stdout.splitlines())) <= 80
    page = tool.run("_generate", f"man-{command}").stdout
    assert options_of_help(shown.stdout) == options_of_man(page) != set()


@pytest.mark.parametrize("command", COMMANDS)
def test_completions_have_every_long_option(tool, command):
    options = {o for o in options_of_help(tool.run(command, "--help").stdout) if o.startswith("--")}
    for shell in ("bash", "zsh", "fish"):
        script = tool.run("_generate", shell).stdout
        for option in options:
            name = f"-l {option[2:]}\\b" if shell == "fish" else re.escape(option)
            assert re.search(name, script), (shell, option)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_parse(tool, shell):
    if not shutil.which(shell):
        return  # checked where the shell is
    script = tool.run("_generate", shell).stdout
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_completion_completes(tool):
    script = tool.run("_generate", "bash").stdout
    ask = 'COMP_WORDS=(hiwater run --summ); COMP_CWORD=2; _hiwater; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True)
    assert {w.strip() for w in done.stdout.split()} == {"--summary", "--summary-file"}


def test_examples_say_run_with_two_dashes(tool):
    text = tool.run("--help").stdout + "".join(tool.run(c, "--help").stdout for c in COMMANDS)
    for line in re.findall(r"^ .*hiwater run .*$", text, re.M):
        if "Usage" not in line and "[options]" not in line and "-o r%r" not in line:
            assert " -- " in line, line


@pytest.mark.parametrize("args, status, words", [
    (["rnu", "true"], 125, ["'rnu'", "hiwater run"]),
    (["python", "x.py"], 125, ["'python'", "hiwater run -- python"]),
    (["run", "--intreval", "1s", "true"], 125, ["--intreval", "--interval"]),
    (["run", "--alive", "true"], 125, ["unknown option --alive", "--live"]),
    (["run", "--live", "--no-record", "true"], 125, ["--no-record"]),
    (["top", "a", "b"], 2, ["one PID"]),
    (["run", "--summary", "fulll", "true"], 125, ["fulll", "full|line|none", "full"]),
    (["run", "-i", "10", "--units=kb", "true"], 125, ["kb", "iec|si|bytes"]),
    (["run", "-i", "0.5ms", "true"], 125, ["1ms"]),
    (["run", "-i", "soon", "true"], 125, ["-i", "soon"]),
    (["run", "--request", "ram=lots", "true"], 125, ["lots"]),
    (["run", "--request", "disk=1G", "true"], 125, ["disk=1G", "ram=SIZE"]),
    (["run", "--repeat", "0", "true"], 125, ["--repeat", "0"]),
    (["run"], 125, ["hiwater run --"]),
    (["--verison"], 125, ["--verison", "--version"]),
    (["show", "--jsn"], 2, ["--jsn", "--json"]),
    (["show", "a", "b"], 2, ["one RUN"]),
    (["show", "no-such-run"], 1, ["no-such-run"]),
    (["runs", "x"], 1, ["hiwater show x"]),
    (["runs", "--rm"], 2, ["--rm"]),
    (["mark"], 2, ["hiwater mark"]),
    (["mark", "x"], 1, ["no run"]),
    (["attach"], 2, ["--name", "--cgroup"]),
    (["attach", "python"], 2, ["python", "--name"]),
    (["attach", "--name", "(", ], 2, ["("]),
    (["attach", "--for", "never", "1"], 2, ["never"]),
    (["doctor", "x"], 2, ["x"]),
    (["doctor", "--root", "/no/such"], 1, ["/no/such"]),
], ids=lambda v: " ".join(v) if isinstance(v, list) else None)
def test_errors_read_well(tool, args, status, words):
    done = tool.run(*args)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("hiwater: ") and done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_options_end_at_the_command(tool):
    done = tool.run("run", "--summary", "none", "echo", "--summary", "-n")
    assert done.stdout == "--summary -n\n"
    done = tool.run("run", "--summary=none", "--", "echo", "--")
    assert done.stdout == "--\n"


def test_long_options_may_be_short(tool):
    assert tool.run("run", "--no-rec", "--summary", "none", "true").returncode == 0


def test_a_reader_that_goes_away_is_no_error_message(tool):
    done = subprocess.run(["sh", "-c", '"$0" run --help | true; "$0" doctor | true', tool.start("--version").args[0]],
                          env=tool.env, capture_output=True, text=True)
    assert done.stderr == ""


def test_stdout_that_cannot_be_written_is_one(tool):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = tool.run("doctor", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert "stdout" in done.stderr


def test_verdicts_that_cannot_be_written_are_a_failure(tool):
    """The status is 1, not 3, which means that the data does not decide."""
    for name in ("a.hiw", "b.hiw"):
        assert tool.run("run", "--summary", "none", "-o", name, "--", "true").returncode == 0
    for words in (["check", "a.hiw", "time < 1h"], ["compare", "--fail-if", "time > 1h", "a.hiw", "b.hiw"]):
        assert tool.run(*words).returncode == 0
        with open("/dev/full", "w", encoding="ascii") as full:
            done = tool.run(*words, stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 1 and "cannot write to stdout" in done.stderr


def test_a_name_has_a_bound(tool):
    done = tool.run("run", "--summary", "none", "-n", "x" * 1001, "--", "touch", "started")
    assert done.returncode == 125 and "has 1001 bytes; give one of at most 1000" in done.stderr
    assert not (tool.folder / "started").exists()
    assert tool.run("run", "--summary", "none", "-n", "x" * 1000, "--", "true").returncode == 0


@pytest.mark.parametrize("options, said", [
    (["--json", "--"], "option --json needs a value: FILE; see"),
    (["--json", "", "--"], "option --json needs a non-empty value: FILE; see"),
    (["--summary-file=", "--"], "option --summary-file needs a non-empty value: FILE; see"),
    (["-n", "", "--"], "option -n needs a non-empty value: NAME; see"),
    (["--request", "ram=1GiB,cpus=2,ram=2GiB", "--"], "--request: 'ram=' is given twice; leave one out; see"),
])
def test_a_value_that_says_nothing_starts_nothing(tool, options, said):
    done = tool.run("run", *options, "touch", "started")
    assert done.returncode == 125 and said in done.stderr, done.stderr
    assert not (tool.folder / "started").exists()
