"""The text form of a kernel: its parameters and schedule, then one line an instruction in order of execution.

kernel fused_add_mean_0
  axes x0 16384, row r0 4096
  in0: bf16 of %0
  out0: f32 of %7
  schedule triton: x 1 (x0) by r 4096, row held, 8 warps, 1 stage, 32-bit indexes
before
  %3: f32 = const 4096.0
pass 0
  %0: bf16[x0, r0] = load in0[4096*x0 + r0]
  %1: f32[x0, r0] = cast %0, held  # aten.mean.dim model.py:12
  %2: f32[x0] = sum %1 over r0  # aten.mean.dim model.py:12
after pass 0
  ...

A value is followed by the axes along which it varies. `held`: kept on chip for a later pass; `again`: computed again.
`of %0` is a node of the graph; every other `%` is an instruction of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusewise.ir.printer import origin_text
from fusewise.lower.kernel import (
    Axis,
    Check,
    Compute,
    Const,
    CppSchedule,
    IndexOf,
    Instr,
    Kernel,
    Load,
    Random,
    Reduce,
    Schedule,
    SizeOf,
    Store,
    result_dtype,
)


def print_kernel(kernel: Kernel, origins: bool = True) -> str:
    """The kernel as text, ending in a newline.

    Args:
        origins: end the lines of arithmetic with the ATen op and the source line that they came from.
    """
    lines = [f"kernel {kernel.name}"]
    if kernel.axes:
        lines.append(f"  axes {', '.join(map(_axis, kernel.axes))}")
    lines += [
        f"  {b.name}: {b.dtype} of %{b.node}" + ("" if b.over is None else f", in place of %{b.over}")
        for b in kernel.buffers
    ]
    if kernel.sizes:
        lines.append(f"  sizes {', '.join(kernel.sizes)}")
    lines.append(f"  schedule {print_schedule(kernel.schedule)}")
    done: set[int] = set()

    def section(title: str, numbers: Sequence[int]) -> None:
        if not numbers:
            return
        lines.append(title)
        again = [n for n in numbers if n in done]
        if again:
            lines.append(f"  {_refs(again)} again")
        lines.extend(f"  {print_instruction(kernel, n, origins)}" for n in numbers if n not in done)
        done.update(numbers)

    section("before", kernel.before)
    for number, one in enumerate(kernel.passes):
        section(f"pass {number}", (*one.elem, *one.reduces))
        section(f"after pass {number}", one.after)
    section("final", kernel.final)
    return "\n".join(lines) + "\n"


def print_schedule(schedule: Schedule) -> str:
    """One line: `triton: x 1 (x0) by r 4096, row held, 8 warps, ...` or `cpp: vectors along r0, threads`."""
    if isinstance(schedule, CppSchedule):
        vectors = f"vectors along {schedule.vector_axis}" if schedule.vector_axis else "scalar"
        return f"cpp: {vectors}, {'threads' if schedule.threads else 'one thread'}"
    tiles = [f"y {schedule.y_block} ({', '.join(schedule.y_axes)})"] if schedule.y_axes else []
    tiles.append(f"x {schedule.x_block} ({', '.join(schedule.x_axes)})" if schedule.x_axes else "one program")
    tiles += [f"l {schedule.l_block}"] if schedule.l_block > 1 else []
    tiles.append(f"r {schedule.r_block}")
    held = "row held" if schedule.persistent else "row walked"
    stages = f"{schedule.num_stages} stage{'s' if schedule.num_stages > 1 else ''}"
    capped = "" if schedule.maxnreg is None else f", at most {schedule.maxnreg} registers a thread"
    spills = ", spills to shared memory" if schedule.spill_to_shared else ""
    return (
        f"triton: {' by '.join(tiles)}, {held}, {schedule.num_warps} warps, {stages}, {schedule.index_bits}-bit indexes"
        f"{capped}{spills}"
    )


def print_instruction(kernel: Kernel, number: int, origins: bool = True) -> str:
    """One instruction: `%5: f32[x0, r0] = add %3, %4`."""
    instr = kernel.body[number]
    dtype = result_dtype(instr)
    varies = ", ".join(a.name for a in kernel.axes if a.name in kernel.varies[number])
    kind = "" if dtype is None else f"{dtype}[{varies}] = " if varies else f"{dtype} = "
    held = ", held" if number in kernel.carried else ""
    text = f"%{number}: {kind}{_operation(kernel, instr)}{held}"
    comment = origin_text(instr.origin) if origins and isinstance(instr, (Compute, Reduce)) else ""
    return f"{text}  # {comment}" if comment else text


def _operation(kernel: Kernel, instr: Instr) -> str:
    match instr:
        case Const(value=value):
            return f"const {value!r}"
        case SizeOf(expr=expr):
            return f"size {expr}"
        case IndexOf(index=index):
            return f"index {index}"
        case Load(buffer=buffer, index=index, mask=mask, other=other):
            return f"load {kernel.buffers[buffer].name}[{index}]" + _where(mask, f" else {other!r}")
        case Compute(op=op, args=args):
            return f"{op} {_refs(args)}"
        case Random(kind=kind, seed=seed, element=element, slot=slot, keep_prob=keep_prob):
            share = f", keep {keep_prob!r}" if kind == "keep" else ""
            return f"{kind} seed %{seed}, element [{element}], slot {slot}{share}"
        case Reduce(op=op, arg=arg, position=position, over_loop=over_loop, centred=centred):
            over = ", ".join(a.name for a in (kernel.loop if over_loop else kernel.reduce))
            place = "" if position is None else f", position [{position}]"
            return f"{op} {'of squared deviations of ' if centred else ''}%{arg} over {over}{place}"
        case Store(buffer=buffer, index=index, value=value):
            return f"store %{value} to {kernel.buffers[buffer].name}[{index}]"
        case Check(cond=cond, message=message, mask=mask, error=error):
            return f"check %{cond}{_where(mask)}, else {error} {message!r}"


def _where(mask: int | None, rest: str = "") -> str:
    return "" if mask is None else f" where %{mask}{rest}"


def _axis(axis: Axis) -> str:
    role = "row " if axis.reduce else "loop " if axis.loop else ""
    return f"{role}{axis.name} {axis.size}"


def _refs(numbers: Iterable[int]) -> str:
    return ", ".join(f"%{n}" for n in numbers)
