"""What one launch of a kernel does to memory, and the loops that its machine code has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.device.arch import load_arch
from fusewise.lower.build import build_kernel
from fusewise.lower.kernel import Kernel, TritonSchedule
from fusewise.lower.registers import predict_registers
from fusewise.lower.work import work_of
from fusewise.pipeline import machine_of
from fusewise.plan.gpu_schedule import choose_gpu_schedule
from fusewise.plan.plan import make_plan
from fusewise.plan.resources import Section, Turn, Work
from fusewise.runtime.sass import sections

ROWS, COLUMNS = 4096, 2048
HOPPER = load_arch("9.0")


def meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def kernel_of(fn: Callable[..., object], *inputs: torch.Tensor) -> tuple[Kernel, Work]:
    """The one kernel of a function for an H200."""
    (traced,) = trace_fn(fn, inputs, device="cuda")
    captured = import_graph(traced.gm, traced.example_inputs, "balanced", "cuda")
    plan = make_plan(captured.graph, machine_of("h200"))
    (step,) = plan.kernels
    kernel = build_kernel(
        plan.graph,
        step.region,
        step.writes,
        plan.layouts,
        step.name,
        lambda shape: choose_gpu_schedule(shape, 132)[0],
        skip_masked=True,
    )
    return kernel, work_of(kernel, plan.graph.hints())


def test_a_pointwise_kernel_touches_each_element_once() -> None:
    _, work = kernel_of(lambda x, y: x + y, meta(ROWS, COLUMNS), meta(ROWS, COLUMNS))
    assert work.loops == ()
    assert work.access_bytes == 3 * ROWS * COLUMNS * 2


def test_a_row_on_chip_is_read_once_and_a_walked_one_once_a_pass() -> None:
    _, held = kernel_of(lambda x: torch.softmax(x, -1), meta(ROWS, COLUMNS))
    assert (held.programs, held.loops) == (ROWS, ())
    assert held.access_bytes == 2 * ROWS * COLUMNS * 2
    long = 1 << 17
    kernel, walked = kernel_of(lambda x: x / x.sum(-1, keepdim=True), meta(ROWS, long))
    assert not kernel.schedule.persistent  # type: ignore[union-attr]
    read = sum(t.turns * t.load_bytes for t in walked.loops)
    assert read == len(walked.loops) * long * 2
    assert len(walked.loops) >= 2


def test_small_tensors_that_all_programs_share_ask_nothing_of_the_second_cache() -> None:
    _, work = kernel_of(lambda x, w: x * w, meta(ROWS, COLUMNS), meta(COLUMNS))
    assert work.access_bytes == 2 * ROWS * COLUMNS * 2
    assert work.near_bytes == COLUMNS * 2
    _, work = kernel_of(lambda x, w: torch.softmax(x * w[0] + w[1], -1), meta(ROWS, COLUMNS), meta(2, COLUMNS))
    assert (work.near_bytes, work.near_asked_bytes) == (2 * COLUMNS * 2, 2 * COLUMNS * 2)


def test_a_causal_mask_lets_half_of_the_reads_through() -> None:
    def causal(x: torch.Tensor) -> torch.Tensor:
        later = torch.arange(COLUMNS, device=x.device) > torch.arange(COLUMNS, device=x.device)[:, None]
        return torch.softmax(x.masked_fill(later, float("-inf")), -1)

    _, work = kernel_of(causal, meta(8, COLUMNS, COLUMNS))
    (share,) = work.read_share.values()
    assert 0.45 < share < 0.55
    assert work.straight.load_bytes < 0.55 * COLUMNS * 2
    assert work.straight.store_bytes == COLUMNS * 2


def test_registers_grow_with_what_a_thread_holds() -> None:
    short, _ = kernel_of(lambda x: torch.softmax(x, -1), meta(ROWS, 1024, dtype=torch.float32))
    pointwise, _ = kernel_of(lambda x: x + 1, meta(ROWS, 1024, dtype=torch.float32))
    norm, _ = kernel_of(lambda x: torch.nn.functional.layer_norm(x, (4096,)), meta(ROWS, 4096, dtype=torch.float32))
    assert 8 <= predict_registers(pointwise, HOPPER) < predict_registers(norm, HOPPER) <= 255
    assert 8 <= predict_registers(short, HOPPER) <= 255


def test_registers_are_shared_as_the_architecture_has_it() -> None:
    """Registers are free up to a multiprocessor full of threads: 2048 of 32, or 1536 of 40."""
    norm, _ = kernel_of(lambda x: torch.nn.functional.layer_norm(x, (4096,)), meta(ROWS, 4096, dtype=torch.float32))
    assert isinstance(norm.schedule, TritonSchedule)
    walked = replace(norm, schedule=replace(norm.schedule, x_block=1, r_block=256, persistent=False, num_warps=4))
    assert predict_registers(walked, HOPPER) == 32
    assert predict_registers(walked, load_arch("12.0")) == predict_registers(walked, load_arch("8.9")) == 40
    with_few = replace(HOPPER, max_registers_per_thread=64, registers_per_sm=16384)
    row = replace(norm, schedule=replace(norm.schedule, x_block=1, r_block=1 << 17, num_warps=4))
    assert predict_registers(row, with_few) == 64


def test_registers_stop_where_a_program_has_no_more() -> None:
    norm, _ = kernel_of(lambda x: torch.nn.functional.layer_norm(x, (4096,)), meta(ROWS, 4096, dtype=torch.float32))
    assert isinstance(norm.schedule, TritonSchedule)
    row = replace(norm.schedule, x_block=1, r_block=1 << 17)
    assert predict_registers(replace(norm, schedule=replace(row, num_warps=4)), HOPPER) == 255
    assert predict_registers(replace(norm, schedule=replace(row, num_warps=16)), HOPPER) == 128  # of 65536
    assert predict_registers(replace(norm, schedule=replace(row, num_warps=16, maxnreg=40)), HOPPER) == 40


def test_neighbours_that_are_the_same_take_one_register() -> None:
    """A value a group of channels, beside one a channel: a thread that holds 8 channels holds one group."""

    def scaled(x: torch.Tensor, *scales: torch.Tensor) -> torch.Tensor:
        return sum(x * scale for scale in scales).sum(0)  # type: ignore[union-attr]

    x = meta(512, 128, 128)
    groups, _ = kernel_of(scaled, x, *[meta(128, 1, dtype=torch.float32) for _ in range(4)])
    channels, _ = kernel_of(scaled, x, *[meta(128, 128, dtype=torch.float32) for _ in range(4)])
    assert groups.schedule.num_warps == channels.schedule.num_warps  # type: ignore[union-attr]
    assert predict_registers(groups, HOPPER) + 8 < predict_registers(channels, HOPPER)


SASS = """
\t.text.kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
.L_x_0:
        /*0020*/                   LDG.E.64 R6, desc[UR4][R2.64] ;
        /*0030*/                   FFMA R6, R6, R6, R6 ;
        /*0040*/              @!P0 FADD R6, R6, R7 ;
        /*0050*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0060*/               @P1 BRA `(.L_x_0) ;
        /*0070*/                   STG.E.U16 desc[UR4][R2.64], R6 ;
        /*0080*/                   EXIT ;
.L_x_1:
        /*0090*/                   BRA `(.L_x_1);
        /*00a0*/                   NOP;
"""


def test_loops_of_machine_code_are_told_from_the_rest() -> None:
    straight, loops = sections(SASS)
    assert straight == Section({"control": 1, "global": 2, "move": 1}, 16, 2, 0)
    assert loops == (Section({"control": 2, "float": 2, "global": 1}, 8, 0, 1),)


def test_turns_add_up() -> None:
    work = Work(10, Turn(1, 100, 50), (Turn(4, 20, 0), Turn(2, 0, 5)), 1, {})
    assert work.access_bytes == 10 * (150 + 80 + 10)


# a sine: arguments from 105615 on take another way, through a loop over the digits of 2 / pi
SINE = """
\t.text.kernel:
        /*0000*/                   LDG.E R5, desc[UR4][R2.64] ;
        /*0010*/                   BSSY B0, `(.L_x_0) ;
        /*0020*/                   FSETP.GE.AND P0, PT, |R5|, 105615, PT ;
        /*0030*/              @!P0 BRA `(.L_x_1) ;
        /*0040*/                   MOV R2, R1 ;
.L_x_2:
        /*0050*/                   LDG.E.CONSTANT R6, desc[UR4][R6.64] ;
        /*0060*/                   STL [R2], R4 ;
        /*0070*/               @P0 BRA `(.L_x_2) ;
        /*0080*/                   DMUL R10, R6, UR6 ;
.L_x_1:
        /*0090*/                   BSYNC B0 ;
.L_x_0:
        /*00a0*/                   STG.E desc[UR4][R2.64], R5 ;
        /*00b0*/                   EXIT ;
.L_x_3:
        /*00c0*/                   BRA `(.L_x_3);
"""


def test_the_slow_path_of_a_function_is_not_executed() -> None:
    assert sections(SINE) == (Section({"control": 4, "float": 1, "global": 2}, 4, 4), ())
    # what stores a result is no slow path, though a branch may skip it
    straight, loops = sections(SINE.replace("STL [R2], R4", "STG.E desc[UR4][R2.64], R4"))
    assert straight.instructions["double"] == 1 and len(loops) == 1
