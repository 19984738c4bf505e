"""PyTorch's own operator samples (OpInfo) through Fusewise: a peer's test suite.

    python tests/peer/opinfo.py --out rows.jsonl [--jobs 8] [--ops add,softmax] [--dtypes f32,bf16] [--device cpu]

Each operator's samples of one dtype are compiled as one function, so that a compile serves many of them; outputs (and
with --backward the inputs' gradients) are compared with eager, and with a second call of the same function, which must
give the same bits. A case passes, fails, or is skipped with the reason; the exit code is 1 where anything failed.

Cases run in --jobs processes. One that dies, hangs, or leaves the GPU in an error state fails its case, and a fresh
process goes on with the next. Their logs lie in the folder OUT.logs. OUT has a line for each case as soon as it is
done; --resume runs what is missing there. `python tests/peer/report.py` makes one results file of such files.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from fusewise import trace
from fusewise.measure.machine import commit, device_name, now, versions
from fusewise.proof.compare import compare as judge
from fusewise.proof.compare import same_bits

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
    "bool": torch.bool,
}

# Not deterministic, or a result that is uninitialised memory: nothing to compare.
_UNINITIALISED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
_RANDOM = (
    "bernoulli",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "normal",
    "pca_lowrank",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "svd_lowrank",
    "uniform",
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.feature_dropout",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu",
)
# Results beyond these many of each sample: the seed and offset of a dropout that is off, which nothing writes.
DEFINED = {"torch.ops.aten._flash_attention_forward": 2, "torch.ops.aten._efficient_attention_forward": 2}
EAGER_RETRIES = 16
"""Calls of eager's kernels that may show that their bits differ from call to call."""
SKIPPED = {**dict.fromkeys(_UNINITIALISED, "uninitialised memory"), **dict.fromkeys(_RANDOM, "random numbers")}


@dataclass(frozen=True)
class Row:
    """One operator and dtype: `status` is passed, failed or skipped.

    `detail`: why it failed or was skipped; of a passed row, what was not compared.
    `error` and `eager_error`: root mean square over all elements of the distance to fp64, in epsilons of the result's
    size; None where there is no fp64 result.
    """

    op: str
    dtype: str
    status: str
    samples: int
    detail: str = ""
    seconds: float = 0.0
    error: float | None = None
    eager_error: float | None = None


def samples_of(op: Any, device: str, dtype: torch.dtype, limit: int, grad: bool) -> list[Any]:
    found = []
    for sample in op.sample_inputs(device, dtype, requires_grad=grad):
        if sample.kwargs.get("dropout_p"):
            continue  # random numbers
        found.append(sample)
        if len(found) >= limit:
            break
    return found


def flat_tensors(value: Any) -> list[torch.Tensor]:
    return [v for v in tree_flatten(value)[0] if isinstance(v, torch.Tensor) and v.layout == torch.strided]


@dataclass(frozen=True)
class Prepared:
    """One sample: its flat arguments without the tensors, how they nest, and where the tensors go."""

    others: list[Any]
    spec: Any
    places: list[int]
    tensors: list[torch.Tensor]


def prepare(sample: Any) -> Prepared:
    flat, spec = tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
    places = [i for i, v in enumerate(flat) if type(v) is torch.Tensor and v.layout == torch.strided]
    tensors = [flat[i].detach().clone().requires_grad_(flat[i].requires_grad) for i in places]
    return Prepared([None if i in places else v for i, v in enumerate(flat)], spec, places, tensors)


def call(op: Any, prepared: Prepared, tensors: list[torch.Tensor], cast: torch.dtype | None = None) -> Any:
    """The operator's result for these tensors; with `cast`, floating-point types among the arguments become that."""
    flat = list(prepared.others)
    if cast:
        flat = [cast if isinstance(v, torch.dtype) and v.is_floating_point else v for v in flat]
    for place, tensor in zip(prepared.places, tensors, strict=True):
        flat[place] = tensor
    first, args, kwargs = tree_unflatten(flat, prepared.spec)
    return op.op(first, *args, **kwargs)


def steps(tensor: torch.Tensor) -> list[int]:
    """Strides that matter: those of the dims longer than 1."""
    return [s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1]


def compare(ours: list[torch.Tensor], eager: list[torch.Tensor], exact: list[torch.Tensor] | None) -> str:
    """Empty where they agree, else what differs."""
    if len(ours) != len(eager):
        return f"{len(ours)} results, eager has {len(eager)}"
    for i, (a, b) in enumerate(zip(ours, eager, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {i}: {a.dtype}{list(a.shape)}, eager {b.dtype}{list(b.shape)}"
        if a.numel() > 1 and a.layout == torch.strided and steps(a) != steps(b):
            return f"result {i}: strides {a.stride()}, eager {b.stride()}"
        if not a.is_floating_point():
            if not torch.equal(a, b):
                return f"result {i}: differs at {int((a != b).sum())} of {a.numel()} elements"
            continue
        fp64 = exact[i].double() if exact is not None and i < len(exact) and exact[i].shape == a.shape else None
        if a.dtype == torch.float64:
            fp64 = None
        # where eager alone overflows, nothing is asked
        asked = torch.ones_like(b, dtype=torch.bool) if fp64 is None else b.isfinite() | ~fp64.isfinite()
        if not torch.equal(a.isnan() & asked, b.isnan() & asked):
            return f"result {i}: NaN at other places"
        infinite = b.isinf() & asked
        if not torch.equal(a[infinite], b[infinite]):
            return f"result {i}: infinities differ"
        outcome = judge(a, b, fp64, exact=False)
        if not outcome.ok:
            errors = f", {outcome.error:.2e}, eager's {outcome.eager_error:.2e}" if outcome.error is not None else ""
            return f"result {i} at {outcome.first}, {outcome.max_ulp} ulp apart{errors}: {outcome.rule}"
    return ""


def moved(first: list[torch.Tensor], second: list[torch.Tensor]) -> set[int]:
    """The results of which a second call gave other bits."""

    def same(a: torch.Tensor, b: torch.Tensor) -> bool:
        return bool(same_bits(a.contiguous(), b.contiguous()).all()) if a.is_floating_point() else torch.equal(a, b)

    return {i for i, (a, b) in enumerate(zip(first, second, strict=True)) if not same(a, b)}


def is_deterministic(call: Callable[[], object]) -> bool:
    """False where PyTorch warns that a kernel of the call has no deterministic implementation, or where the one that it
    takes instead cannot do the call: the usual one is not deterministic then either."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            call()
        except (RuntimeError, IndexError):
            return False
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    return not any("does not have a deterministic implementation" in str(w.message) for w in caught)


def broken(device: str) -> str:
    """Why the device takes no more work, after all that was asked of it is done; empty where it does."""
    if torch.device(device).type != "cuda":
        return ""
    try:
        torch.cuda.synchronize(device)
    except Exception as problem:
        return str(problem).partition("\n")[0]
    return ""


def errors(ours: list[torch.Tensor], eager: list[torch.Tensor], exact: list[torch.Tensor] | None) -> dict[str, float]:
    """The fields `error` and `eager_error` of a row, where there is something to tell."""
    sums, count = [0.0, 0.0], 0
    if exact is None or len(exact) != len(ours):
        return {}
    for a, b, e in zip(ours, eager, exact, strict=True):
        if not a.is_floating_point() or a.dtype == torch.float64 or e.shape != a.shape:
            continue
        counted = a.isfinite() & b.isfinite() & e.isfinite()
        size = torch.where(counted, e.double(), 0.0).norm() / math.sqrt(max(int(counted.sum()), 1))
        if not size > 0:
            continue
        for i, t in enumerate((a, b)):
            off = torch.where(counted, t.double() - e.double(), 0.0) / (size * torch.finfo(a.dtype).eps)
            sums[i] += float(off.square().sum())
        count += int(counted.sum())
    if not count:
        return {}
    error, eager_error = (math.sqrt(s / count) for s in sums)
    return {"error": error, "eager_error": eager_error}


def run_op(op: Any, name: str, dtype_name: str, device: str, limit: int, backward: bool, backend: Any) -> Row:
    dtype = DTYPES[dtype_name]
    start = time.time()
    grad = backward and dtype.is_floating_point and op.supports_autograd
    defined = DEFINED.get(op.name)

    def row(status: str, count: int, detail: str = "", **measured: float) -> Row:
        return Row(name, dtype_name, status, count, detail, round(time.time() - start, 2), **measured)

    torch.manual_seed(0)
    try:
        samples = samples_of(op, device, dtype, limit, grad)
    except Exception as problem:
        return row("skipped", 0, f"no samples: {str(problem)[:100]}")
    kept: list[Prepared] = []
    for sample in samples:
        prepared = prepare(sample)
        try:
            call(op, prepared, [t.detach() for t in prepared.tensors])
        except Exception:
            continue
        kept.append(prepared)
    if not kept:
        return row("skipped", 0, "eager takes none of the samples")

    def copies(cast: torch.dtype | None) -> list[list[torch.Tensor]]:
        def copy(t: torch.Tensor) -> torch.Tensor:
            moved = t.detach().to(cast) if cast and t.is_floating_point() else t.detach().clone()
            return moved.requires_grad_(t.requires_grad)

        return [[copy(t) for t in prepared.tensors] for prepared in kept]

    def weight(out: torch.Tensor) -> torch.Tensor:
        ramp = torch.arange(out.numel(), device=out.device, dtype=torch.float64)
        return torch.cos(ramp).reshape(out.shape).to(dtype).to(out.dtype)  # the same numbers for the fp64 reference

    def one(fn: Any, cast: torch.dtype | None) -> list[torch.Tensor]:
        inputs = copies(cast)
        outs = [o for result in fn(inputs) for o in flat_tensors(result)[:defined]]
        found = [o.detach() for o in outs]
        roots = [o for o in outs if o.requires_grad and o.is_floating_point()] if grad else []
        if roots:
            torch.autograd.backward(roots, [weight(o) for o in roots])
            found += [t.grad for mine in inputs for t in mine if t.grad is not None]
        return found

    def plain(inputs: list[list[torch.Tensor]], cast: torch.dtype | None = None) -> list[Any]:
        return [call(op, prepared, mine, cast) for prepared, mine in zip(kept, inputs, strict=True)]

    def traced() -> list[torch.Tensor]:
        """Of torch's own tracing, with eager's kernels behind it."""
        torch._dynamo.reset()
        return one(torch.compile(plain, backend="aot_eager", dynamic=False), None)

    torch._dynamo.reset()
    try:
        eager = one(plain, None)
    except Exception as problem:
        return row("skipped", 0, f"eager: {str(problem)[:100]}")
    exact = None
    if dtype.is_floating_point and dtype != torch.float64:
        try:
            exact = one(lambda inputs: plain(inputs, torch.float64), torch.float64)
        except Exception:
            exact = None
    if fault := broken(device):
        return row("skipped", len(kept), f"eager's kernels fail: {fault}")
    trace.clear()
    compiled = torch.compile(plain, backend=backend, dynamic=False)
    try:
        ours = one(compiled, None)
    except Exception as problem:
        text = "".join(traceback.format_exception_only(problem)).strip().replace("\n", " ")[:600]
        print(f"{name} {dtype_name}:", file=sys.stderr)
        traceback.print_exception(problem)
        if broken(device):
            return row("failed", len(kept), f"raised {text}")
        try:
            traced()
        except Exception as theirs:
            if type(theirs) is type(problem):
                return row("skipped", len(kept), f"torch.compile with eager's kernels raises too: {text}")
        return row("failed", len(kept), f"raised {text}")
    if fault := broken(device):
        return row("failed", len(kept), fault)
    try:
        difference = compare(ours, eager, exact)
        if difference:
            other = traced()  # may already take another algorithm than eager
            if compare(other, eager, exact) and not compare(ours, other, exact):
                return row("skipped", len(kept), f"torch.compile with eager's kernels differs too: {difference}")
    except Exception as problem:
        return row("skipped", len(kept), f"cannot be compared: {str(problem)[:100]}")
    if not difference and any(c.kernels for c in trace.compiled()):
        ours_moved = moved(ours, one(compiled, None))
        eager_moved: set[int] = set()
        for _ in range(EAGER_RETRIES if ours_moved else 0):
            eager_moved |= moved(eager, one(plain, None))
        if ours_moved - eager_moved and not is_deterministic(lambda: one(plain, None)):
            return row("skipped", len(kept), "PyTorch says of eager's kernels that they are not deterministic")
        if ours_moved - eager_moved:
            difference = f"result {min(ours_moved - eager_moved)}: a second call gives other bits"
        elif ours_moved:
            return row("skipped", len(kept), "eager's kernels give other bits at each call")
    if difference:
        return row("failed", len(kept), difference, **errors(ours, eager, exact))
    left_out = f"compared: the first {defined} results of each sample; the rest is not defined" if defined else ""
    return row("passed", len(kept), left_out, **errors(ours, eager, exact))


@dataclass(frozen=True)
class Case:
    """One operator (its place in PyTorch's list, and its name) and the name of a dtype."""

    number: int
    op: str
    dtype: str


def cases(device: str, dtypes: Sequence[str], ops: Sequence[str]) -> list[Case]:
    """All cases of these operators (empty: all) and dtypes, those that have a reason to be skipped too."""
    found = []
    for dtype in dtypes:
        for number, op in enumerate(op_db):
            name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
            if ops and op.name not in ops and name not in ops:
                continue
            if op.name in SKIPPED or DTYPES[dtype] in op.supported_dtypes(device.split(":")[0]):
                found.append(Case(number, name, dtype))
    return found


def work(args: argparse.Namespace) -> None:
    """A worker: reads a case a line, writes its row; ends where the device takes no more work."""
    from fusewise.backend import backend_for
    from fusewise.config import make_options

    rows = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an operator prints is no row
    backend = backend_for(make_options(strict=True, check=True))
    for line in sys.stdin:
        case = Case(**json.loads(line))
        op = op_db[case.number]
        if op.name in SKIPPED:
            row = Row(case.op, case.dtype, "skipped", 0, SKIPPED[op.name])
        else:
            row = run_op(op, case.op, case.dtype, args.device, args.samples, args.backward, backend)
        last = bool(broken(args.device))
        rows.write(json.dumps({"row": asdict(row), "last": last}) + "\n")
        rows.flush()
        if last:
            return


class Worker:
    """A process that runs cases: `command` reads a case a line and writes a line for each, its row and whether it ends.

    `alive`: False once it takes no more cases.
    """

    def __init__(self, command: Sequence[str], log: Path, env: dict[str, str] | None = None) -> None:
        self.cases, self.alive = 0, True
        self._log = log
        with log.open("a", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=env
            )

    def run(self, case: Case, seconds: float) -> Row:
        """The case's row: failed where the process dies or takes longer than `seconds`."""
        self.cases += 1
        start = time.time()
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None and told is not None
        line, late = "", False
        try:
            asked.write(json.dumps(asdict(case)) + "\n")
            asked.flush()
            late = not select.select([told], [], [], seconds)[0]
            line = "" if late else told.readline()
        except BrokenPipeError:
            pass
        if line.endswith("\n"):
            found = json.loads(line)
            self.alive = not found["last"]
            return Row(**found["row"])
        self.alive = False
        self.stop(kill=late)
        ended = f"no result after {seconds:.0f} s" if late else f"the process died: {_ending(self._process.returncode)}"
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"{case.op} {case.dtype}: {ended}\n")
        return Row(case.op, case.dtype, "failed", 0, ended, round(time.time() - start, 2))

    def stop(self, kill: bool = False) -> None:
        """Ends the process."""
        if kill:
            self._process.kill()
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def run_cases(
    todo: Sequence[Case],
    jobs: int,
    start: Callable[[int], Worker],
    seconds: float,
    done: Callable[[Row], None],
    life: int = 100,
) -> None:
    """Runs the cases in `jobs` processes at a time, each used for `life` cases at most, so that none grows large.

    `start` makes the process of a number; `done` gets each row, one at a time.
    """
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in todo:
        waiting.put(case)
    lock = threading.Lock()

    def serve(number: int) -> None:
        worker: Worker | None = None
        while True:
            try:
                case = waiting.get_nowait()
            except queue.Empty:
                break
            if worker is not None and (worker.cases >= life or not worker.alive):
                worker.stop()
                worker = None
            worker = worker or start(number)
            row = worker.run(case, seconds)
            with lock:
                done(row)
        if worker is not None:
            worker.stop()

    threads = [threading.Thread(target=serve, args=(number,), daemon=True) for number in range(min(jobs, len(todo)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="", help="names, comma separated; default: all")
    parser.add_argument("--dtypes", default="f32", help=f"comma separated, of {', '.join(DTYPES)}")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--samples", type=int, default=8, help="samples of each operator and dtype")
    parser.add_argument("--shard", default="0/1", help="part/parts: every parts-th case")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--case-seconds", type=float, default=900, help="a case that takes longer fails")
    parser.add_argument("--resume", action="store_true", help="keep the rows in OUT")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.worker:
        work(args)
        return 0
    part, parts = map(int, args.shard.split("/"))
    todo = cases(args.device, args.dtypes.split(","), args.ops.split(",") if args.ops else ())[part::parts]
    logs = args.out.with_name(args.out.name + ".logs")
    logs.mkdir(parents=True, exist_ok=True)
    commits: list[str] = [str(commit())]
    kept: list[dict[str, Any]] = []
    if args.resume and args.out.is_file():
        lines = args.out.read_text(encoding="utf-8").splitlines(keepends=True)
        before, *kept = [json.loads(line) for line in lines if line.endswith("\n")]
        commits.insert(0, before["commit"])
    else:
        for log in logs.glob("*.log"):
            log.unlink()
    finished = {(row["op"], row["dtype"]) for row in kept}
    settings = {"device": args.device, "samples": args.samples, "backward": args.backward}
    header: dict[str, Any] = {"settings": settings, "device": device_name(args.device), "versions": versions()}
    header |= {"commit": ", ".join(dict.fromkeys(commits)), "date": now()}
    header["cases"] = [[case.op, case.dtype] for case in todo]
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    env = dict(os.environ)
    if args.jobs > 1:
        env.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // args.jobs)))

    with args.out.open("w", encoding="utf-8") as out:

        def write(found: dict[str, Any]) -> None:
            out.write(json.dumps(found) + "\n")
            out.flush()

        def done(row: Row) -> None:
            write(asdict(row))
            counts[row.status] += 1
            if row.status == "failed":
                print(f"FAILED {row.op} {row.dtype} ({row.samples} samples): {row.detail}", flush=True)

        def start(number: int) -> Worker:
            command = [sys.executable, "-X", "faulthandler", __file__, *sys.argv[1:], "--worker"]
            return Worker(command, logs / f"{number}.log", env)

        for found in (header, *kept):
            write(found)
        waiting = [case for case in todo if (case.op, case.dtype) not in finished]
        run_cases(waiting, args.jobs, start, args.case_seconds, done)
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
