# SPDX-License-Identifier: MIT
"""Checks docs/comparison.md: each cell of its tables cites evidence, and the cited note exists."""
import re

from rst import Missing


def check(text):
    """Raises Missing for a cell without a note, and for a note of no cell."""
    notes = set(re.findall(r"^- (\d+): ", text, re.M))
    named = set()
    for table in re.findall(r"(?:^\| .*\n)+", text, re.M):
        head, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
        for tool, *known in rows:
            if len(known) != len(head) - 1:
                raise Missing(f"comparison.md: {tool}: {len(known)} cells, {len(head) - 1} questions")
            for question, cell in zip(head[1:], known):
                found = re.fullmatch(r"(?:yes|no|partly) [sr](\d+)|unseen", cell)
                if not found:
                    raise Missing(f'comparison.md: {tool}, {question}: "{cell}" cites no evidence')
                named |= {found[1]} - {None}
    if notes ^ named:
        raise Missing(f"comparison.md: notes without a cell, or cells without a note: {', '.join(sorted(notes ^ named))}")
