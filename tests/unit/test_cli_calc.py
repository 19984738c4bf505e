"""`fusewise calc` and `device`: right numbers, without torch; bad usage in one line and exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusewise.cli import main

SRC = Path(__file__).parents[2] / "src"
WITHOUT_TORCH = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
from fusewise.cli import main
main()
"""


def run(*arguments: str, out: int = subprocess.PIPE, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command where neither torch nor triton can be imported."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SRC)!r})\n{WITHOUT_TORCH}", *arguments],
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "", **environment},
        timeout=60,
    )


def test_three_kernels_over_one_gigabyte() -> None:
    done = run("calc", "--tensor", "1GB", "--kernels", "3", "--device", "a100", "--json")
    assert done.returncode == 0, done.stderr
    fusion = json.loads(done.stdout)["fusion"]
    assert (fusion["naive_bytes"], fusion["fused_bytes"], fusion["cap"]) == (6 * 10**9, 2 * 10**9, 3.0)
    peak = fusion["at_peak"]
    assert peak["rate"]["source"] == "datasheet"
    assert peak["naive_ms"] == pytest.approx(6e9 / peak["rate"]["value"] * 1e3)
    assert peak["fused_ms"] == pytest.approx(2e9 / peak["rate"]["value"] * 1e3)


def test_end_to_end() -> None:
    done = run("calc", "--share", "0.334", "--speedup", "3.6", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["end_to_end"]["speedup"] == pytest.approx(1 / (0.666 + 0.334 / 3.6))


def test_text_names_both_bounds_and_the_cap() -> None:
    done = run("calc", "--tensor", "1GB", "--kernels", "3", "--device", "a100")
    for part in ("6.00 GB", "2.00 GB", "2.943 ms", "0.981 ms", "3.00x"):
        assert part in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["calc"], "nothing to calculate"),
        (["calc", "--share", "0.3"], "belong together"),
        (["calc", "--share", "33", "--speedup", "2"], "must be from 0 to 1"),
        (["calc", "--tensor", "1XB"], "is not a size"),
        (["calc", "--tensor", "1GB", "--kernels", "0"], "must be at least 1"),
        (["calc", "--tensor", "1GB", "--device", "h20"], "Did you mean h200"),
        (["device", "show", "h2000"], "Did you mean h200"),
        (["clac"], "Did you mean 'calc'"),
        (["calc", "--tensors", "1GB"], "--tensor"),
        (["bench", "--from", "x.json"], "--from goes with --table"),
        (["bench", "--budget", "-1"], "--budget"),
        (["verify", "--exhaustive", "--inputs", "0"], "--inputs"),
        (["bench", "--table", "no-such-page.md"], "no page"),
        (["explain", "no-such-file.py:f"], "no file no-such-file.py"),
        (["explain", "f"], "names no function"),
        (["explain", "no_such_module:f"], "no module"),
    ],
)
def test_bad_usage_is_one_clear_line(arguments: list[str], says: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr


def test_devices_with_their_sources() -> None:
    listed = json.loads(run("device", "list", "--json").stdout)
    names = [d["name"] for d in listed]
    assert {"a100", "h100", "h200", "b200", "l4", "rtx5090", "mi300x", "cpu"} <= set(names)
    figures = json.loads(run("device", "show", "h200", "--json").stdout)["figures"]
    assert all(f["source"] and f["doc"] for f in figures.values())
    assert figures["sm_count"]["value"] == 132


def test_a_reader_that_leaves_is_no_finding() -> None:
    for arguments in (["device", "list"], ["device", "show", "h200", "--json"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = run(*arguments, out=writer)
        os.close(writer)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_clear_line(unbuffered: str) -> None:
    with open("/dev/full", "w") as full:
        done = run("device", "list", out=full.fileno(), PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (3, "error: No space left on device.\n")


def test_an_interrupt_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fusewise.commands.device.load", interrupted)
    monkeypatch.setattr(sys, "argv", ["fusewise", "device", "show", "h200"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130 and capsys.readouterr().err == "interrupted\n"


def test_columns_names_the_width_of_what_is_no_terminal() -> None:
    widths = [max(map(len, run("device", "show", "h200", COLUMNS=c).stdout.splitlines())) for c in ("", "100")]
    assert widths == [120, 100]


def test_version_and_help() -> None:
    assert run("--version").stdout.startswith("fusewise ")
    for verb in ("demo", "explain", "verify", "bench", "show", "calc", "doctor", "device"):
        done = run(verb, "--help")
        assert done.returncode == 0
        assert "--json" in done.stdout or "--json" in run(verb, "list", "--help").stdout


def test_doctor_names_what_is_missing() -> None:
    done = run("doctor", "--json")
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    torch = next(c for c in found["checks"] if c["name"] == "torch")
    assert torch["status"] == "missing" and torch["remedy"] == "pip install torch" and not found["ok"]
    triton = next(c for c in found["checks"] if c["name"] == "triton")
    assert triton["status"] == "optional" and triton["remedy"].startswith("pip install triton")
