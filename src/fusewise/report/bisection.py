"""What a bisection found, as plain data, JSON and text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fusewise.report.documents import SourceLine, to_json

BISECTION_SCHEMA = "fusewise-bisection/1"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two kernels that a fusion makes one: its name, ATen ops and the user's lines."""

    kernel: str
    ops: tuple[str, ...]
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class Fusion:
    """One fusion that was taken.

    Attributes:
        number: its place among all fusions of the function, from 1.
        role: of its graph.
        fuel: its place among the fusions of its graph, from 1.
        kind, code, meaning: of its decision.
        bytes_saved, gain_us: what the planner expected of it.
        first, second: the two kernels without it.
        fused: the kernel with it.
        value: the op whose result passes between them (or that both read), and its line.
    """

    number: int
    role: str
    fuel: int
    kind: str
    code: str
    meaning: str
    bytes_saved: int
    gain_us: float
    first: Side
    second: Side
    fused: str
    value: str
    line: SourceLine | None


@dataclass(frozen=True, slots=True)
class Trial:
    """The function with only its first `fusions` fusions: whether it is right, or its time."""

    fusions: int
    ok: bool | None = None
    time_us: float | None = None


@dataclass(frozen=True, slots=True)
class Bisection:
    """The first fusion that makes a function wrong, or slower.

    Attributes:
        target: what was bisected.
        policy, device: of its plan.
        question: `wrong` or `slower`.
        fusions: how many it has.
        culprit: the fusion; None where there is none.
        trials: what was tried, in order.
        answer: what was found, in one line.
        details: what there is to know beside it.
    """

    target: str
    policy: str
    device: str
    question: str
    fusions: int
    culprit: Fusion | None
    trials: tuple[Trial, ...]
    answer: str
    details: tuple[str, ...] = ()
    found: bool = False

    @property
    def ok(self) -> bool:
        """True where nothing is wrong, or nothing gets slower."""
        return not self.found

    def as_dict(self) -> dict[str, Any]:
        """Plain data, with the name of its schema."""
        return {"schema": BISECTION_SCHEMA, "ok": self.ok, **asdict(self)}

    def to_json(self) -> str:
        """The same as JSON text."""
        return to_json(self.as_dict())

    def __rich__(self) -> Any:
        from fusewise.report.bisection_view import render_bisection

        return render_bisection(self)

    def __str__(self) -> str:
        from fusewise.report.terminal import plain_text

        return plain_text(self.__rich__())
