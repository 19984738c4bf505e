"""Writes docs/gate.md: how to hold a plan in CI, with what the commands print.

    python docs/make_gate.py

Needs triton. What is shown is the same on every machine with the pinned torch and triton.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import tempfile
import textwrap
from contextlib import chdir, redirect_stderr
from pathlib import Path

from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gate.md"
PROGRAM = ROOT / "docs" / "gate_program.py"

CODE = "    return F.rms_norm("
LOGGED = '    print("mean", h.float().mean(), file=sys.stderr)\n'


def page() -> str:
    """The text of the page."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        shutil.copy(PROGRAM, "model.py")
        source = Path("model.py").read_text(encoding="utf-8")
        line = source[: source.index(CODE)].count("\n") + 1
        saved = _run("fusewise plan model.py:block --device h200 --save plan.json", 0)
        same = _run("fusewise check plan.json", 0)
        why = _run(f"fusewise explain model.py:block --device h200 --why gelu {line}", 0)
        changed = source.replace("import torch\n", "import sys\n\nimport torch\n", 1).replace(CODE, LOGGED + CODE)
        Path("model.py").write_text(changed, encoding="utf-8")
        worse = _run("fusewise check plan.json", 1)
        accepted = _run("fusewise check plan.json --accept", 0)
        message = _assertion(Path("model.py"))
    return f"""# A gate for fusion, in CI without a GPU

A small change can cost a model its fusion: a log line that splits the graph, an operator that becomes PyTorch's own
kernel, one value too many for the registers. Results stay right, so no test fails. These commands make such a change
fail in CI. They plan and compile for a GPU by name; none needs to be there, and nothing is run.

## Keep a plan

`model.py` holds `block` and its `example_inputs`:

```python
{source[source.index("def block") :].strip()}
```

{_block(saved)}
Commit `plan.json`. It holds the request (file, inputs, devices, policy), the versions of torch and triton, and for each
graph the kernels with their lines, bytes, registers, spills and shared memory, PyTorch's own kernels with the reason,
graph breaks, and what runs as eager. There is no time in it and no path of your machine, and what you have measured
with `fusewise device calibrate` plays no part: with the same versions everybody gets the same file. `--device h200,l4`
holds both. (A plan for `cpu` depends on the cores and caches of the machine that makes it.)

## Check it

{_block(same)}
In CI, where Fusewise is installed with its extra `triton`, that is the whole job:

```yaml
- run: fusewise check plan.json
```

Now somebody adds a line to `block`: `{LOGGED.strip()}`

{_block(worse)}
The exit code is 1. It is 1 for a new graph break, a new PyTorch kernel (a wall), a graph that now runs as eager, and
for more kernels, bytes, registers or spills. A kernel is held against the one of the same name; a new one against those
that it replaces. Moving code to other lines changes nothing. What is better is noted and does not fail.

Where the change is meant, keep the new plan, and the diff of `plan.json` is part of the review:

{_block(accepted)}
A plan that was saved with another torch or triton is compared all the same, and a note says so: registers may then
differ for that reason alone. `--json` prints findings, improvements and notes. Exit codes: 0 as saved or better, 1 a
finding, 2 a file or target that cannot be read, 3 no triton.

## In pytest

```python
from fusewise.testing import assert_plan

def test_block_stays_one_kernel():
    assert_plan(block, *example_inputs(), device="h200", max_kernels=1, max_walls=0, max_regs_per_thread=64)
```

No spill, no graph break and no fallback is allowed unless you say otherwise (`max_spill_bytes`, `max_graph_breaks`,
`max_fallbacks`). With the line that was added above it fails:

{_block(message)}
## Why

`fusewise explain --why A B` answers for one pair: names of kernels, operators (`gelu`) or lines (`{line}`). Both ways
to run the pair are compiled, as two kernels and as one.

{_block(why)}
`--candidates` lists every fusion that was tried, taken or refused, and `--staircase` draws occupancy for each kernel.
With `--device h200,l4` a table tells what is one kernel on one of them only. `--json` and `--html` hold all of
it.
"""


def _run(command: str, code: int) -> str:
    """What a terminal shows of a command, which must end with that exit code."""
    from fusewise.cli import app

    done = CliRunner().invoke(app, shlex.split(command)[1:])
    assert done.exit_code == code, f"{command}: exit code {done.exit_code}\n{done.output}"
    return f"$ {command}\n{done.stdout}"


def _assertion(file: Path) -> str:
    """The message of the assertion of the page."""
    from fusewise.commands.targets import load_target
    from fusewise.testing import assert_plan

    loaded = load_target(f"{file}:block", device="meta")
    try:
        with redirect_stderr(io.StringIO()):  # the line that was added prints there
            assert_plan(loaded.function, *loaded.args, max_kernels=1, max_walls=0, max_regs_per_thread=64)
    except AssertionError as failed:
        return f"AssertionError: {failed}"
    raise RuntimeError("the assertion of the page holds")


def _block(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
    return f"```text\n{textwrap.dedent(lines)}\n```\n"


def main() -> None:
    """Writes the page."""
    with tempfile.TemporaryDirectory() as scratch:
        # folders of its own: kernels that were built before prove nothing, and no calibration changes the figures
        os.environ["FUSEWISE_CACHE_DIR"] = str(Path(scratch) / "fusewise")
        os.environ["TRITON_CACHE_DIR"] = str(Path(scratch) / "triton")
        PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
