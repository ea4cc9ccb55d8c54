# SPDX-License-Identifier: MIT
"""A replay of the calls of a run into the estimator yields the figures of the run; tables of
replays."""
import dataclasses
import os
import pathlib
import subprocess
import tempfile

import pytest
import truth_jobs

pytestmark = pytest.mark.timeout(300)
HIWATER = pathlib.Path(os.environ.get("HIWATER", truth_jobs.HERE.parents[1] / "build" / "hiwater")).resolve()
REPLAY = HIWATER.parent / "truth-replay"
# One process of 8 MiB; then a fork of it, and both are read again.
JOURNAL = """new 4096 0 1073741824 0 1
time 1000000
birth 1 0 77 0 1 0
faults 1 2000
size 1 8388608 1048576
total 1000000 1 2000
birth 2 1 77 50000000 0 0
time 100000000
size 1 8388608 1048576
size 2 8388608 1048576
faults 1 2000
faults 2 10
total 100000000 1 2010
finish
"""


@pytest.fixture
def folder():
    """A folder to which the runs of another user can write."""
    with tempfile.TemporaryDirectory(prefix="hiwater-ablation-") as name:
        journals = pathlib.Path(name) / "journals"
        journals.mkdir()
        journals.chmod(0o777)
        yield journals


def replayed(path, masks="0"):
    done = subprocess.run([REPLAY, masks, path], check=True, stdout=subprocess.PIPE, text=True)
    return [line.split()[1:] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", ["forks 30", "forks-churn 8", "copy-and-exec"])
def test_a_replay_gives_the_figures_of_the_run(folder, name):
    job, = truth_jobs.jobs(False, name)
    bench = truth_jobs.Bench(folder.parent, HIWATER.parent / "hiwater-journal", folder)
    ram = bench.measure(job, "root" if os.geteuid() == 0 else "user")["ram"]
    (_, low, estimate, high, *_), = replayed(bench.journal)
    figure, main, descendants = ram["combined"], ram["main"]["peak_bytes"], ram["descendants"]["peak_bytes"]
    # The high-water mark of main that its parent gets from wait4() may be a few pages above every
    # mark read before. The summary, not the estimator, keeps the estimate within that of main and
    # of all others together.
    low, estimate = max(int(low), main), max(int(low), main, min(int(estimate), main + descendants))
    assert (low, estimate) == (figure["low_bytes"], figure["peak_bytes"])
    # Without exit records, the summary adds processes that may have gone unseen, or has no upper
    # bound.
    assert figure["high_bytes"] == max(int(high), main) if os.geteuid() == 0 else figure["high_bytes"] is None or high != "-"


def test_a_journal_is_replayed_with_each_mask(folder):
    path = folder / "made-up"
    path.write_text(JOURNAL)
    (zero, *with_families), (one, *without) = replayed(path, "0,1")
    mib = 1 << 20
    assert (zero, one) == ("0", "1")
    # Without information about files, the 1 MiB of both counts twice; of the rest, the fork has the
    # memory of its faults.
    assert (int(with_families[0]), int(with_families[2])) == (8 * mib, 9 * mib + 10 * 4096)
    assert (int(without[0]), int(without[2])) == (8 * mib, 16 * mib)


@pytest.mark.parametrize("text", ["", JOURNAL.replace("finish\n", ""), JOURNAL[:-4], JOURNAL.replace("size 2", "mark 2"),
                                  JOURNAL.replace("faults 2 10", "faults 2"), JOURNAL.replace("77", "x"), JOURNAL.replace("new", "old")])
def test_a_journal_that_is_not_whole_is_refused(folder, text):
    (folder / "broken").write_text(text)
    done = subprocess.run([REPLAY, "0", folder / "broken"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "") and "not a complete journal" in done.stderr


def test_what_follows_the_end_of_the_run_is_in_no_figure(folder):
    (folder / "whole").write_text(JOURNAL)
    (folder / "longer").write_text(JOURNAL + "some_process 99999999 0\ntime 200000000\n")
    assert replayed(folder / "whole") == replayed(folder / "longer")


def test_every_rule_is_found_in_the_header(board):
    assert {name for name, _ in board.rules().values()} >= {"families", "faults", "lifetimes", "machine", "pass", "files"}
    header = (truth_jobs.HERE.parents[1] / "src" / "job" / "memory" / "memory.h").read_text()
    assert len(board.rules()) == header.count("MEMORY_RULE_")


def test_a_table_with_each_rule_off(board, row):
    good, wide, wrong = row(90, 100, 110), row(90, 120, 200), row(90, 95, 97)
    masks = {0: [good, good], **{mask: [good, good] for mask in board.rules()}, 1: [wide, wide], 2: [good, wrong]}
    lines = board.ablation_table(board.ablation_sums(masks), True)
    assert len(lines) == 3 + len(board.rules())
    assert lines[2] == "| none | 0 | 1.10 | 1.10 | 0.0% | 0 | 0 of 2 |"
    assert lines[3].startswith("| families: ") and lines[3].endswith(" | 0 | 2.00 | 2.00 | 20.0% | 0 | 2 of 2 |")
    assert lines[4].startswith("| faults: ") and " | 1 | " in lines[4] and lines[4].endswith(" | 1 of 2 |")


def test_tables_are_put_between_their_marks(board):
    text = "a\n<!-- ablation -->\n\nold\n\n<!-- /ablation -->\nb\n"
    assert board.filled(text, "ablation", ["| x |"]) == "a\n<!-- ablation -->\n\n| x |\n\n<!-- /ablation -->\nb\n"
    assert board.filled(board.filled(text, "ablation", ["1"]), "ablation", ["2"]) == board.filled(text, "ablation", ["2"])
    with pytest.raises(ValueError):
        board.filled(text, "scoreboard", [])


def test_what_the_summary_knows_better_stays(board, row):
    exact, sampled, bounded = row(90, 90, 90, method="exact"), row(90, 100, None, method="sampled"), row(90, 100, 110)
    assert board.with_figures(exact, "1", "2", "3") == exact
    assert board.with_figures(sampled, "1", "2", "3").high is None
    changed = board.with_figures(bounded, "1", "2", "3")
    assert (changed.low, changed.estimate, changed.high, len(changed.violated)) == (1, 2, 3, 1)
    assert board.with_figures(bounded, "1", "2", "-").method == "sampled"


def test_a_stored_row_is_the_same_again(board, row):
    before = row(90, 100, None, method="sampled")
    assert board.row_of({**dataclasses.asdict(before), "ratio": None}) == before
