"""Random PyTorch programs. Each op is tried in eager while the program is written, so that a program always runs.

Values that IEEE and integer arithmetic fix to the bit are marked exact, and only those go through ops that jump (floor,
comparisons, argmax, casts to integers): a last bit must not decide between two results.
"""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass

import torch

from tests.fuzz.programs import Input, Op, Program

MOST_ELEMENTS = 20_000
SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33, 64, 100)
FLOATS = (torch.float32,) * 5 + (torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.uint8, torch.int16, torch.int8)


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of op.

    Attributes:
        text: Python; `{d}`, `{e}`: dims of operand 0, `{n}`: its last size, `{k}`: a small number, `{p}`: a fraction.
        takes: one letter an operand: f float, i integer, b bool, a any, x an index (0 or 1).
        exact: the result is exact where the operands are.
        jumps: the operands must be exact.
        statement: changes operand 0 in place.
        sums: adds up many values: not for hard data.
        rank: least rank of operand 0.
        static: its text holds sizes of its operands.
    """

    text: str
    takes: str
    exact: bool = False
    jumps: bool = False
    statement: bool = False
    sums: bool = False
    rank: int = 0
    static: bool = False


def _t(takes: str, *texts: str, **kind: bool | int) -> list[Template]:
    return [Template(text, takes, **kind) for text in texts]  # type: ignore[arg-type]


TEMPLATES: list[Template] = [
    *_t("ff", "{0} + {1}", "{0} - {1}", "{0} * {1}", "torch.maximum({0}, {1})", "torch.minimum({0}, {1})", exact=True),
    *_t("ff", "{0} / {1}", exact=True),
    *_t("ff", "{0} / ({1}.abs() + 1)", "{0} * torch.tanh({1})", "torch.atan2({0}, {1})", "torch.hypot({0}, {1})"),
    *_t("ff", "torch.lerp({0}, {1}, {p})", "torch.add({0}, {1}, alpha={p})", "torch.copysign({0}, {1})"),
    *_t("fff", "torch.addcmul({0}, {1}, {2}, value={p})", "torch.clamp({0}, {1}, {2})"),
    *_t("f", "{0} * {p}", "{p} - {0}", "{0} + {k}", "{0} / {k}", "-{0}", "{0}.abs()", "{0}.relu()", exact=True),
    *_t("f", "{0}.clamp(-1, {p})", "{0}.clamp(min={p})", "{0} * 0", "{0} * {0}", "{0}.square()", exact=True),
    *_t("f", "{0}.floor()", "{0}.round()", "{0}.trunc()", "{0}.sign()", "{0}.ceil()", exact=True, jumps=True),
    *_t("f", "{0} // {k}", "{0} % {k}", "{0}.fmod({k})", exact=True, jumps=True),
    *_t("f", "torch.exp({0}.clamp(-4, 3))", "torch.tanh({0})", "torch.sigmoid({0})", "F.gelu({0})", "F.silu({0})"),
    *_t("f", "F.gelu({0}, approximate='tanh')", "torch.log1p({0}.abs())", "torch.rsqrt({0}.abs() + 1)", "{0}.sin()"),
    *_t("f", "F.softplus({0})", "F.mish({0})", "torch.erf({0})", "F.elu({0})", "F.leaky_relu({0})", "{0}.cos()"),
    *_t("f", "F.hardswish({0})", "F.logsigmoid({0})", "torch.expm1({0}.clamp(-3, 3))", "{0}.sqrt()", "{0} ** 3"),
    *_t("a", "{0}.to(torch.float32)", "{0}.to(torch.bfloat16)", "{0}.to(torch.float64)", "{0}.half()", exact=True),
    *_t("a", "{0}.to(torch.int64)", "{0}.to(torch.bool)", exact=True, jumps=True),
    *_t("f", "{0} > {p}", "{0} <= 0", "torch.isnan({0})", "torch.isfinite({0})", exact=True, jumps=True),
    *_t("ff", "{0} < {1}", "{0} == {1}", "{0} != {1}", exact=True, jumps=True),
    *_t("baa", "torch.where({0}, {1}, {2})", exact=True),
    *_t(
        "bf",
        "torch.where({0}, {1}, 0)",
        "torch.where({0}, {1}, float('-inf'))",
        "{1}.masked_fill({0}, {p})",
        exact=True,
    ),
    *_t("ba", "{0} * {1}", "{0} & ({1} > 0)", exact=True, jumps=True),
    *_t("bb", "{0} | {1}", "{0} ^ {1}", "{0} & ~{1}", exact=True),
    *_t("ii", "{0} + {1}", "{0} * {1}", "{0} - {1}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "{0} < {1}", exact=True),
    *_t("i", "{0} // {k}", "{0} % {k}", "{0} // -{k}", "{0} << 2", "{0} >> 1", "~{0}", "{0} * 3", "-{0}", exact=True),
    *_t("i", "{0} / {k}", "{0}.abs()", "{0}.sign()", "{0}.clamp(-3, 4)", "{0} > 2", "{0} * {p}", exact=True),
    *_t("if", "{0} + {1}", "{0} * {1}", exact=True),
    *_t("ii", "torch.div({0}, {1}.abs() + 1, rounding_mode='trunc')", "{0} % ({1} * {1} + 1)", exact=True),
    # reductions
    *_t(
        "f",
        "{0}.mean({d})",
        "{0}.mean(({d}, {e}))",
        "{0}.mean()",
        "{0}.sum({d}, keepdim=True) / {n}",
        sums=True,
        rank=1,
    ),
    *_t("f", "torch.tanh({0}.sum({d}) * 0.1)", "{0}.sum(({d}, {e}), keepdim=True) * 0.05", sums=True, rank=1),
    *_t("f", "{0}.var({d})", "{0}.std({d}, keepdim=True)", "{0}.norm(dim={d})", sums=True, rank=1),
    *_t("f", "torch.logsumexp({0}, {d})", "{0}.clamp(-1.1, 1.1).prod({d})", "{0}.cumsum({d})", sums=True, rank=1),
    *_t("a", "{0}.amax({d})", "{0}.amin({d}, keepdim=True)", "{0}.amax(({d}, {e}))", exact=True, rank=1),
    *_t("a", "{0}.argmax({d})", "{0}.argmin({d}, keepdim=True)", "{0}.max({d})[0]", exact=True, jumps=True, rank=1),
    *_t("b", "{0}.any({d})", "{0}.all()", "{0}.sum({d})", "{0}.any()", exact=True, rank=1),
    *_t("i", "{0}.sum({d})", "{0}.sum()", "{0}.prod({d})", "{0}.sum(({d}, {e}))", exact=True, rank=1),
    # rows
    *_t("f", "torch.softmax({0}, {d})", "torch.log_softmax({0}, {d})", "F.normalize({0}, dim={d})", sums=True, rank=1),
    *_t("f", "F.layer_norm({0}, ({n},))", "F.rms_norm({0}, ({n},))", sums=True, rank=1, static=True),
    *_t("f", "F.layer_norm({0}, {0}.shape[-1:])", "{0} - {0}.mean({d}, keepdim=True)", sums=True, rank=1),
    *_t("f", "F.instance_norm({0})", "F.group_norm({0}, 1)", sums=True, rank=3),
    *_t("f", "{0}.softmax({d}) @ {0}.mT", "torch.tanh({0} @ {0}.mT * 0.1)", sums=True, rank=2),
    *_t("ff", "torch.tanh({0} @ {1} * 0.1)", "torch.tanh({0} @ {1}.mT * 0.1)", sums=True, rank=2),
    *_t("fb", "torch.softmax({0}.masked_fill({1}, -1e4), -1)", sums=True, rank=1),
    # views
    *_t("a", "{0}.transpose({d}, {e})", "{0}.flip({d})", "{0}.unsqueeze({d})", "{0}.squeeze()", exact=True, rank=1),
    *_t("a", "{0}.mT", "{0}.flatten(0, 1)", "{0}.movedim({d}, {e})", "{0}.diagonal(0, 0, 1)", exact=True, rank=2),
    *_t(
        "a",
        "{0}[1:]",
        "{0}[::2]",
        "{0}[..., 1:]",
        "{0}[..., ::3]",
        "{0}[:, :-1]",
        "{0}[-1]",
        "{0}[..., 0]",
        exact=True,
        rank=1,
    ),
    *_t(
        "a",
        "{0}.reshape(-1)",
        "{0}[None]",
        "{0}.roll(1, {d})",
        "{0}.chunk(2, {d})[0]",
        "{0}.contiguous()",
        exact=True,
        rank=1,
    ),
    *_t(
        "a",
        "{0}.reshape({0}.shape[0], -1)",
        "{0}.reshape(-1, {0}.shape[-1])",
        "{0}.unflatten(-1, (-1, 2))",
        exact=True,
        rank=2,
    ),
    *_t(
        "a",
        "{0}.narrow({d}, 0, 1)",
        "{0}.select({d}, 0)",
        "{0}.split(2, {d})[-1]",
        "{0}.unfold({d}, 2, 1)",
        exact=True,
        rank=1,
    ),
    *_t("a", "{0}.expand(3, *{0}.shape)", "{0}.repeat(2, *[1] * ({0}.dim() - 1))", "{0}.tril()", exact=True, rank=2),
    *_t("aa", "{0}.expand_as({1})", "{0}.view({1}.shape)", "{0}.reshape({1}.shape)", exact=True),
    *_t("a", "{0}.view(-1, {k})", "{0}.permute(*reversed(range({0}.dim())))", exact=True, rank=1, static=True),
    # joins, pads, gathers
    *_t(
        "aa",
        "torch.cat([{0}, {1}], {d})",
        "torch.stack([{0}, {1}], {d})",
        "torch.cat([{1}, {0}, {1}])",
        exact=True,
        rank=1,
    ),
    *_t("a", "F.pad({0}, (1, 2))", "F.pad({0}, (0, 1, 2, 0), value={p})", "F.pad({0}, (-1, 1))", exact=True, rank=2),
    *_t("ax", "{0}[{1}]", "F.embedding({1}, {0})", "torch.take_along_dim({0}, {1}, {d})", exact=True, rank=1),
    *_t("ax", "{0}.index_select({d}, {1}.reshape(-1))", "{0}[:, {1}]", "{0}[..., -{1}]", exact=True, rank=1),
    *_t(
        "a", "torch.arange({0}.shape[0]) * {k}", "torch.ones_like({0})", "torch.full_like({0}, {k})", exact=True, rank=1
    ),
    *_t("af", "{0}.new_zeros({1}.shape) + {1}", exact=True),
    # in place, on values and on views
    *_t("ff", "{0}.add_({1})", "{0}.mul_({1})", "{0}[1:].add_({1}[1:])", "{0}.copy_({1})", exact=True, statement=True),
    *_t("f", "{0}.relu_()", "{0}.mul_({p})", "{0}.zero_()", "{0}.clamp_(-1, 1)", exact=True, statement=True),
    *_t("f", "{0}[0] = {k}", "{0}[..., 0].add_(1)", "{0}[::2].mul_(2)", exact=True, statement=True, rank=1),
    *_t(
        "f",
        "{0}.add_({0}.flip(0))",
        "{0}.mT.add_({p})",
        "{0}.diagonal().fill_({k})",
        exact=True,
        statement=True,
        rank=2,
    ),
    *_t("fb", "{0}.masked_fill_({1}, {p})", "{0}[{1}] = {k}", exact=True, statement=True),
    *_t("fx", "{0}[{1}] = {p}", exact=True, statement=True, rank=1),
    *_t("f", "{0}.tanh_()", "{0}.sigmoid_()", statement=True),
    *_t("ii", "{0}.add_({1})", exact=True, statement=True),
    *_t("fxf", "{0}.index_add(0, {1}.reshape(-1), {2})", "{0}.scatter_add({d}, {1}, {2})", sums=True, rank=1),
]


def random_program(seed: int) -> Program:
    """The program of this seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Generator(seed).run()


class _Generator:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.hard = self.rng.random() < 0.12
        self.dynamic = self.rng.random() < 0.2
        self.grad = not self.hard and self.rng.random() < 0.45
        self.sizes = {"n": self.rng.choice((5, 6, 9))}
        self.inputs: list[Input] = []
        self.ops: list[Op] = []
        self.values: list[torch.Tensor] = []
        self.exact: list[bool] = []
        self.coarse: list[float] = []
        self.names: list[str] = []
        self.seed = seed

    def run(self) -> Program:
        rng = self.rng
        dims: list[int | str] = [rng.choice(SIZES) for _ in range(2)] + [rng.choice(SIZES[:6])]
        if rng.random() < 0.05:
            dims[rng.randrange(3)] = 0
        if self.dynamic:
            dims[rng.randrange(3)] = "n"
        kinds: list[torch.dtype] = [rng.choice(FLOATS) for _ in range(rng.randint(1, 3))]
        kinds += [rng.choice(INTEGERS)] * (rng.random() < 0.4) + [torch.bool] * (rng.random() < 0.4)
        for dtype in kinds:
            self.input(dtype, dims)
        if rng.random() < 0.3:
            self.input(torch.int64, [rng.choice((1, 3, 4))], data="index")
        if self.inputs and rng.random() < 0.1:
            self.inputs.append(self.inputs[0])  # drawn anew
        self.draw()
        for _ in range(rng.randint(2, 14)):
            self.step()
        made = [n for n in range(len(self.inputs), len(self.values)) if not self.ops[n - len(self.inputs)].statement]
        made = made or list(range(len(self.inputs)))
        outputs = tuple(dict.fromkeys([made[-1], *rng.choices(made, k=rng.randint(0, 2))]))
        return Program(
            tuple(self.inputs),
            tuple(self.ops),
            outputs,
            tuple(self.exact[o] for o in outputs),
            tuple(self.coarse[o] for o in outputs),
            self.dynamic,
            self.hard,
        )

    def input(self, dtype: torch.dtype, dims: list[int | str], data: str = "") -> None:
        rng = self.rng
        shape = tuple(rng.choice(dims) if rng.random() < 0.85 else 1 for _ in range(rng.choice((1, 2, 2, 2, 3, 3, 0))))
        layout = rng.choice(("dense",) * 4 + ("transposed", "reversed", "sliced", "expanded"))
        if not data:
            data = "hard" if self.hard else rng.choice(("normal", "normal", "whole"))
        grad = self.grad and dtype.is_floating_point and rng.random() < 0.8
        self.inputs.append(Input(dtype, shape, layout, data, grad))

    def draw(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        for number, kind in enumerate(self.inputs):
            value = kind.make(generator, self.sizes)
            self.values.append(value.requires_grad_(kind.grad))
            self.exact.append(True)
            self.coarse.append(_eps(value.dtype))
            self.names.append(f"x{number}")

    def step(self) -> None:
        for _ in range(20):
            template = self.rng.choice(TEMPLATES)
            if (self.hard and template.sums) or (self.dynamic and template.static):
                continue
            args = self.arguments(template)
            if args is not None and self.try_op(template, args):
                return

    def arguments(self, template: Template) -> tuple[int, ...] | None:
        found: list[int] = []
        for place, kind in enumerate(template.takes):
            fits = [n for n, v in enumerate(self.values) if self.fits(v, kind) and self.is_latest(n)]
            if template.jumps and kind != "x":
                fits = [n for n in fits if self.exact[n]]
            if place == 0:
                fits = [n for n in fits if self.values[n].dim() >= template.rank]
            if not fits:
                return None
            found.append(fits[-1 - min(len(fits) - 1, int(self.rng.expovariate(0.6)))])
        return tuple(found)

    def is_latest(self, number: int) -> bool:
        """In-place ops give their operand a new number: the old one is the same tensor."""
        return self.names.index(self.names[number]) == number

    def fits(self, value: torch.Tensor, kind: str) -> bool:
        match kind:
            case "f":
                return value.is_floating_point()
            case "i":
                return not value.is_floating_point() and value.dtype != torch.bool
            case "b":
                return value.dtype == torch.bool
            case "x":
                number = next(n for n, v in enumerate(self.values) if v is value)
                return number < len(self.inputs) and self.inputs[number].data == "index"
            case _:
                return True

    def try_op(self, template: Template, args: tuple[int, ...]) -> bool:
        rng = self.rng
        first = self.values[args[0]]
        rank = max(1, first.dim())
        parts = {
            "d": rng.choice((-1, *range(rank))),
            "e": rng.randrange(rank),
            "n": "{0}.shape[-1]" if self.dynamic or rng.random() < 0.5 else (first.shape[-1] if first.dim() else 1),
            "k": rng.choice((1, 2, 3, 5)),
            "p": rng.choice((0.5, 0.3, -0.25, 1.7, 2)),
        }
        text = template.text
        for letter, value in parts.items():
            text = text.replace("{" + letter + "}", str(value))
        names = [self.names[a] for a in args]
        scope = {"torch": torch, "F": torch.nn.functional, **dict(zip(self.names, self.values, strict=False))}
        if template.statement and not self.may_write(args[0]):
            return False
        # a copy that shares memory as the original does is costly: ops that fail in place do so before they write
        try:
            if template.statement:
                exec(text.format(*names), scope)
                result = first
            else:
                result = eval(text.format(*names), scope)
        except Exception:
            return False
        if not isinstance(result, torch.Tensor) or result.numel() > MOST_ELEMENTS or result.is_complex():
            return False
        exact = template.exact and all(self.exact[a] for a in args)
        coarse = max(_eps(result.dtype), *(self.coarse[a] for a in args))
        number = len(self.values)
        self.ops.append(Op(text, args, template.statement))
        self.values.append(result)
        self.names.append(self.names[args[0]] if template.statement else f"v{number}")
        self.exact.append(exact)
        self.coarse.append(coarse)
        if template.statement:
            self.spread(first, exact, coarse)
        return True

    def may_write(self, number: int) -> bool:
        """Not into inputs that gradients flow to, nor into memory that is read at several places at once."""
        value = self.values[number]
        try:
            is_asked_for = value.is_leaf and value.requires_grad
        except RuntimeError:  # one of several views that one call made, of memory that was written since
            return False
        return not is_asked_for and not any(s == 0 for s in value.stride())

    def spread(self, changed: torch.Tensor, exact: bool, coarse: float) -> None:
        """What an in-place op wrote shows in every value of the same memory."""
        storage = changed.untyped_storage().data_ptr()
        for number, value in enumerate(self.values):
            if value.untyped_storage().data_ptr() == storage:
                self.exact[number] = self.exact[number] and exact
                self.coarse[number] = max(self.coarse[number], coarse)


def _eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
