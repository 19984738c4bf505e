"""What the further proofs found, as plain data, JSON and text: fusions against single ops, and every input of an op."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fusewise.report.documents import to_json

UNFUSED_SCHEMA = "fusewise-unfused-proof/1"
EXHAUSTIVE_SCHEMA = "fusewise-exhaustive-proof/1"


@dataclass(frozen=True, slots=True)
class FusionCheck:
    """One kernel on one set of inputs, against its ops run one by one.

    Attributes:
        inputs: name of the set of inputs.
        kernel: its path, as in `forward/fused_mul_add_0`.
        ops: the ATen ops in it.
        values, elements: tensors that were compared, and their elements.
        sums: of those, floating-point sums that differ as two orders of one sum may.
        ok: every other bit is the same.
        index: the first element that differs; `wrong`: how many do.
        fused, unfused: its two values as text.
        op, file, line: the op that makes it, and the user's line.
    """

    inputs: str
    kernel: str
    ops: tuple[str, ...]
    values: int
    elements: int
    sums: int
    ok: bool
    index: tuple[int, ...] | None = None
    wrong: int = 0
    fused: str = ""
    unfused: str = ""
    op: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class UnfusedProof:
    """The kernels of a function against the same graphs with every op a kernel of its own.

    Attributes:
        target: what was verified.
        policy: whose plan it is.
        device: where it ran.
        checks: one a kernel, call of its graph and set of inputs.
        notes: what was not compared, and why.
        kernels, fusions: of the compiled graphs.
        eager_graphs: reasons of graphs that ran as eager.
        seed: of the inputs and of random ops.
    """

    target: str
    policy: str
    device: str
    checks: tuple[FusionCheck, ...]
    notes: tuple[str, ...] = ()
    kernels: int = 0
    fusions: int = 0
    eager_graphs: tuple[str, ...] = ()
    seed: int = 0

    @property
    def ok(self) -> bool:
        """True where no fusion changed a bit."""
        return all(c.ok for c in self.checks)

    @property
    def failures(self) -> tuple[FusionCheck, ...]:
        """The kernels that differ."""
        return tuple(c for c in self.checks if not c.ok)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, with the name of its schema."""
        return {"schema": UNFUSED_SCHEMA, "ok": self.ok, **asdict(self)}

    def to_json(self) -> str:
        """The same as JSON text."""
        return to_json(self.as_dict())

    def __bool__(self) -> bool:
        return self.ok

    def __rich__(self) -> Any:
        from fusewise.report.proofs_view import render_unfused

        return render_unfused(self)

    def __str__(self) -> str:
        from fusewise.report.terminal import plain_text

        return plain_text(self.__rich__())


@dataclass(frozen=True, slots=True)
class OpMismatch:
    """One element of an op that differs from eager's: floats as hexadecimal, exact to the last bit."""

    given: tuple[str, ...]
    fused: str
    eager: str
    layout: str
    shape: tuple[int, ...]
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExhaustiveRow:
    """One call of an op in one dtype against eager's, bit for bit.

    Attributes:
        op: the overload.
        call: its arguments as text.
        dtype: of the operands.
        claimed: the op's bits are claimed to be eager's on this device.
        fused: a generated kernel computes it; else it runs as PyTorch's own kernel, for `reason`.
        inputs: inputs of the sweep (pairs for two operands).
        compared: elements compared, with those at every tail, layout and number of threads.
        mismatches: elements whose bits differ, and the layouts in which any do.
        first: the first of them.
    """

    op: str
    call: str
    dtype: str
    claimed: bool
    fused: bool
    reason: str
    inputs: int
    compared: int
    mismatches: int
    layouts_that_differ: tuple[str, ...]
    first: OpMismatch | None


@dataclass(frozen=True, slots=True)
class ExhaustiveReport:
    """Every pointwise op that `conservative` claims on a device, against eager.

    Attributes:
        device, device_name, versions, commit, date, seconds: what it stands on.
        threads: numbers of threads; layouts: names of the layouts; lengths: number of row lengths.
        unclaimed: the rows are of ops that conservative leaves eager, fused all the same.
        rows: one a call and dtype.
    """

    device: str
    device_name: str
    versions: dict[str, str]
    commit: str
    date: str
    seconds: float
    threads: tuple[int, ...]
    layouts: tuple[str, ...]
    lengths: int
    unclaimed: bool
    rows: tuple[ExhaustiveRow, ...]

    @property
    def ok(self) -> bool:
        """True where no claimed op differs."""
        return not self.failures

    @property
    def failures(self) -> tuple[ExhaustiveRow, ...]:
        """Claimed ops that differ."""
        return tuple(r for r in self.rows if r.claimed and r.mismatches)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, with the name of its schema."""
        return {"schema": EXHAUSTIVE_SCHEMA, "ok": self.ok, **asdict(self)}

    def to_json(self) -> str:
        """The same as JSON text."""
        return to_json(self.as_dict())

    def __bool__(self) -> bool:
        return self.ok

    def __rich__(self) -> Any:
        from fusewise.report.proofs_view import render_exhaustive

        return render_exhaustive(self)

    def __str__(self) -> str:
        from fusewise.report.terminal import plain_text

        return plain_text(self.__rich__())
