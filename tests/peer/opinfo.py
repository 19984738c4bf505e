"""PyTorch's own operator samples (OpInfo) through Fusewise: a peer's test suite.

    python tests/peer/opinfo.py --out report.json [--ops add,softmax] [--dtypes f32,bf16] [--samples 6] [--device cpu]

Each operator's samples of one dtype are compiled as one function, so that a compile serves many of them; outputs (and
with --backward the inputs' gradients) are compared with eager, and with a second call of the same function, which must
give the same bits. The report counts passed, skipped with the reason, and failed; the exit code is 1 where anything
failed. Shards (--shard 0/4) run apart; `python tests/peer/report.py` makes one results file of their reports.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from fusewise import trace
from fusewise.measure.machine import commit
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
    "nn.functional.scaled_dot_product_attention",
)
SKIPPED = {**dict.fromkeys(_UNINITIALISED, "uninitialised memory"), **dict.fromkeys(_RANDOM, "random numbers")}


@dataclass(frozen=True)
class Row:
    """One operator and dtype: `status` is passed, failed or skipped.

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


def call(op: Any, prepared: Prepared, tensors: list[torch.Tensor]) -> Any:
    flat = list(prepared.others)
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


def repeated(first: list[torch.Tensor], second: list[torch.Tensor]) -> str:
    """Empty where a second call gave the first one's bits, else what differs."""
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        same = same_bits(a.contiguous(), b.contiguous()).all() if a.is_floating_point() else torch.equal(a, b)
        if not same:
            return f"result {i}: a second call gives other bits"
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
        return torch.cos(ramp).reshape(out.shape).to(out.dtype)

    def one(fn: Any, cast: torch.dtype | None) -> list[torch.Tensor]:
        inputs = copies(cast)
        outs = flat_tensors(fn(inputs))
        results = [o.detach() for o in outs]
        roots = [o for o in outs if o.requires_grad and o.is_floating_point()] if grad else []
        if roots:
            torch.autograd.backward(roots, [weight(o) for o in roots])
            results += [t.grad for mine in inputs for t in mine if t.grad is not None]
        return results

    def plain(inputs: list[list[torch.Tensor]]) -> list[Any]:
        return [call(op, prepared, mine) for prepared, mine in zip(kept, inputs, strict=True)]

    torch._dynamo.reset()
    try:
        eager = one(plain, None)
    except Exception as problem:
        return row("skipped", 0, f"eager: {str(problem)[:100]}")
    exact = None
    if dtype.is_floating_point and dtype != torch.float64:
        try:
            exact = one(plain, torch.float64)
        except Exception:
            exact = None
    trace.clear()
    compiled = torch.compile(plain, backend=backend, dynamic=False)
    try:
        ours = one(compiled, None)
    except Exception as problem:
        text = "".join(traceback.format_exception_only(problem)).strip().replace("\n", " ")[:600]
        torch._dynamo.reset()
        try:
            one(torch.compile(plain, backend="aot_eager", dynamic=False), None)
        except Exception as theirs:
            if type(theirs) is type(problem):
                return row("skipped", len(kept), f"torch.compile with eager's kernels raises too: {text}")
        return row("failed", len(kept), f"raised {text}")
    try:
        difference = compare(ours, eager, exact)
        if difference:
            # torch's own tracing, with eager's kernels behind it, may already take another algorithm than eager
            torch._dynamo.reset()
            traced = one(torch.compile(plain, backend="aot_eager", dynamic=False), None)
            if compare(traced, eager, exact) and not compare(ours, traced, exact):
                return row("skipped", len(kept), f"torch.compile with eager's kernels differs too: {difference}")
    except Exception as problem:
        return row("skipped", len(kept), f"cannot be compared: {str(problem)[:100]}")
    if not difference and any(c.kernels for c in trace.compiled()) and not repeated(eager, one(plain, None)):
        difference = repeated(ours, one(compiled, None))
    return row("failed" if difference else "passed", len(kept), difference, **errors(ours, eager, exact))


def rows(args: argparse.Namespace) -> Iterator[Row]:
    from fusewise.backend import backend_for
    from fusewise.config import make_options

    backend = backend_for(make_options(strict=True, check=True))
    chosen = set(args.ops.split(",")) if args.ops else None
    part, parts = map(int, args.shard.split("/"))
    for number, op in enumerate(op_db):
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if (chosen and op.name not in chosen and name not in chosen) or number % parts != part:
            continue
        for dtype_name in args.dtypes.split(","):
            if op.name in SKIPPED:
                yield Row(name, dtype_name, "skipped", 0, SKIPPED[op.name])
            elif DTYPES[dtype_name] not in op.supported_dtypes(args.device.split(":")[0]):
                continue
            else:
                yield run_op(op, name, dtype_name, args.device, args.samples, args.backward, backend)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="", help="names, comma separated; default: all")
    parser.add_argument("--dtypes", default="f32", help=f"comma separated, of {', '.join(DTYPES)}")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--samples", type=int, default=8, help="samples of each operator and dtype")
    parser.add_argument("--shard", default="0/1", help="part/parts")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    found: list[Row] = []
    for row in rows(args):
        found.append(row)
        if row.status == "failed":
            print(f"FAILED {row.op} {row.dtype} ({row.samples} samples): {row.detail}", flush=True)
    counts = {s: sum(r.status == s for r in found) for s in ("passed", "skipped", "failed")}
    if args.out:
        settings = {"device": args.device, "samples": args.samples, "backward": args.backward, "shard": args.shard}
        settings["commit"] = commit()
        args.out.write_text(json.dumps({"settings": settings, "rows": [asdict(r) for r in found]}, indent=1))
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
