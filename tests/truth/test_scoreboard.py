# SPDX-License-Identifier: MIT
"""The scoreboard judges invented figures; no job is run."""
import pytest
import truth_jobs
from truth_jobs import MB


def met(board, rows, costs=None):
    return {target.name.split(" <=")[0]: target.met for target in board.targets(rows, costs or {}, True)}


@pytest.mark.parametrize("figures, wrong", [((90, 100, 110), 0), ((90, 95, 97), 1), ((106, 110, 120), 1), ((90, 120, 110), 1),
                                            ((90, 100, None), 0), ((106, 106, None), 1)])
def test_bounds_on_the_wrong_side(row, figures, wrong):
    assert len(row(*figures).violated) == wrong


def test_no_bound_is_above_the_machine(row):
    assert row(90, 100, truth_jobs.memory_total() // MB + 1).violated


def test_sums(board, row):
    total = board.sums([row(90, 100, 110), row(90, 120, 200), row(90, 100, None, method="sampled")])
    assert (total["runs"], total["with a high bound"], total["sampled"], total["bounds violated"]) == (3, 2, 1, 0)
    assert total["high/truth, median"] == pytest.approx(1.55) and total["high/truth, p90"] == pytest.approx(1.91)
    assert total["error of the estimate, mean"] == pytest.approx(0.2 / 3)
    assert total["error of the estimate, worst"] == pytest.approx(0.2)
    assert total["own CPU, median, % of a core"] == pytest.approx(0.5)


def test_a_target_is_met_in_every_condition_or_missed(board, row):
    good, bad = row(90, 100, 110), row(90, 100, 140, load="busy")
    assert met(board, [good])["high/truth, median"] is True
    assert met(board, [good, bad])["high/truth, median"] is False
    assert met(board, [good])["make -j2 as root: high/truth, median"] is None


def test_targets_of_some_jobs_alone(board, row):
    rows = [row(90, 111, 120, kind="shared"), row(90, 101, 120, kind="rest"), row(90, 100, 240, kind="make")]
    result = met(board, rows)
    assert result["shared mappings: the estimate above the truth by"] is False
    assert result["tree at rest: error of the estimate"] is False
    assert result["make -j2 as root: high/truth, median"] is False and result["make -j2 as root: high/truth, worst"] is True
    result = met(board, [row(90, 100, 120, kind="make", method="sampled"), row(90, 100, None, kind="make")])
    assert result["make -j2 as root has a high bound"] is False


def test_costs_are_compared_with_the_base(board, row):
    assert met(board, [row(90, 100, 110)], {"grow": (0.1, 0.24), "idle 10": (0.2, 0.3)})["own CPU of grow, of the base's"] is True
    assert met(board, [row(90, 100, 110)], {"grow": (0.1, 0.24), "idle 10": (0.2, 0.3)})["own CPU of idle 10, of the base's"] is False


def test_a_job_that_fails_is_no_figure(board, row):
    failed = row(90, 100, 110, status=124)
    assert failed.failed and board.sums([failed])["runs"] == 0
    assert met(board, [failed, row(90, 100, 110)])["jobs that could not be measured: 0"] is False


def test_the_table_in_markdown(board, row):
    lines = board.report([row(90, 100, 110, job="first"), row(90, 95, 97, job="second")], {}, False, True)
    assert lines[0] == "### root, quiet"
    assert "| first | 100.0 | 90.0 | 100.0 | 110.0 | bounded | 1.10 | +0.0% | 0.50 |  |" in lines
    assert any("WRONG: high 97.0 < truth" in line for line in lines)
    assert any(line.startswith("| bounds on the wrong side of the truth: 0 | 1 | MISSED |") for line in lines)
