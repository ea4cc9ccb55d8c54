# SPDX-License-Identifier: MIT
"""The Python and notebook sections of README.md work as printed."""
import textwrap

import pytest
from track_helpers import ROOT


def sections():
    """The code blocks of README.md, by their first lines."""
    blocks, block = {}, []
    for line in [*(ROOT / "README.md").read_text().splitlines(), ""]:
        if line.startswith("    ") or (block and not line):
            block.append(line)
        elif block:
            text = textwrap.dedent("\n".join(block)).strip()
            blocks[text.split("\n")[0].split("  ")[0]] = text
            block = []
    return blocks


def test_python(program):
    """First without optional packages, then the block that needs them."""
    text, tables = sections()["import hiwater"], sections()['run.to_pandas("series"); run.plot().savefig("run.png")']
    program.run(f"""
        import contextlib, io
        wanted = ("pandas", "matplotlib", "numpy", "IPython")
        sys.modules.update(dict.fromkeys(wanted))  # not installed
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec({text!r}, globals())
        assert "RAM" in said.getvalue() and len(run.summary.phases) == 3 and run.summary.series["loss"].n == 3
        assert pathlib.Path("run.html").exists()
        for name in wanted: del sys.modules[name]
        exec({tables!r}, globals())
        assert pathlib.Path("run.png").exists()
    """)


@pytest.mark.full
@pytest.mark.frameworks
@pytest.mark.timeout(300)
def test_notebook(program, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    for key, value in {**program.env, "IPYTHONDIR": str(program.folder / "ipython")}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(program.folder)
    first, _, second = sections()["%load_ext hiwater"].partition("\n\n")
    assert second.startswith("%%hiwater")
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (first, second, "%hiwater off")])
    NotebookClient(nb, timeout=120).execute()
    outputs = nb.cells[1].outputs
    assert any(">loss<" in o["data"].get("text/html", "") for o in outputs)
    assert any(o["data"].get("text/plain", "").startswith("[2]") for o in outputs)
