from __future__ import annotations

import pytest

from benchmarks.catalogue import PROGRAMS
from fusewise.measure import floors
from fusewise.measure.floors import Ceilings, best_of, floor_of, is_impossible
from fusewise.measure.program import Cost

# One H200, as the catalogue's floors were worked out: copy 4.25 TB/s, bf16 matmul 715 TFLOP/s, empty kernel 4.5 us.
H200 = Ceilings(
    copy_gbps=4250.0,
    two_read_one_write_gbps=4250.0,
    read_gbps=4250.0,
    matmul_tflops={"bf16": 715.0},
    empty_kernel_us=4.5,
)

# name, direction, floor, two-read floor, bound: from the catalogue's table.
FLOORS = [
    ("chain", "forward", 505, None, "bytes"),
    ("gelu_dropout_residual_layer_norm", "forward", 95, None, "bytes"),
    ("gelu_dropout_residual_layer_norm", "train", 253, None, "bytes"),
    ("layer_norm", "train", 158, None, "bytes"),
    ("add_rms_norm", "forward", 126, None, "bytes"),
    ("softmax", "forward", 126, None, "bytes"),
    ("softmax_long_row", "forward", 126, 190, "bytes"),
    ("masked_softmax", "forward", 190, None, "bytes"),
    ("masked_softmax", "train", 442, None, "bytes"),
    ("cross_entropy", "train", 1484, None, "bytes"),
    ("swiglu", "train", 679, None, "bytes"),
    ("group_norm_silu_dropout", "forward", 32, 47, "bytes"),
    ("group_norm_silu_dropout", "train", 79, 126, "bytes"),
    ("group_norm_silu_dropout_channels_last", "forward", 32, 47, "bytes"),
    ("gemm_scale_bias", "forward", 192, None, "flops"),
    ("gemm_scale_bias_m16", "forward", 8, None, "bytes"),
    ("gemm_scale_bias_gelu", "forward", 48, None, "flops"),
    ("qkv_attention", "forward", 481, None, "flops"),
    ("target_attention", "forward", 4.5, None, "launch"),
    ("conv_bn_relu_pool", "forward", 83, None, "flops"),
    ("expert_routing", "forward", 4.5, None, "launch"),
    ("lora_routing", "forward", 96, None, "flops"),
    ("adam", "forward", 277, None, "bytes"),
    ("small_norms", "forward", 4.5, None, "launch"),
]


@pytest.mark.parametrize(("name", "direction", "floor_us", "two_read_us", "bound"), FLOORS)
def test_full_sizes_have_the_floors_of_the_catalogue(
    name: str, direction: str, floor_us: float, two_read_us: float | None, bound: str
) -> None:
    program = PROGRAMS[name]
    dtype = program.dtypes[0]
    floor = floor_of(program.cost(program.case("full", dtype, direction=direction)), dtype, H200)
    assert floor.time_us == pytest.approx(floor_us, rel=0.03)
    assert floor.bound == bound
    if two_read_us is None:
        assert floor.two_read_us is None
    else:
        assert floor.two_read_us == pytest.approx(two_read_us, rel=0.03)


@pytest.mark.parametrize(
    ("name", "least_us"), [("target_attention", 3.0), ("expert_routing", 4.2), ("gemm_scale_bias_m16", 8.0)]
)
def test_bytes_of_the_programs_that_an_empty_kernel_bounds(name: str, least_us: float) -> None:
    assert PROGRAMS[name].least_bytes("full", "bf16") / 4.25e6 == pytest.approx(least_us, rel=0.03)


def test_cross_entropy_may_go_below_its_floor_down_to_two_passes() -> None:
    program = PROGRAMS["cross_entropy"]
    floor = floor_of(program.cost(program.case("full", "bf16", direction="train")), "bf16", H200)
    assert floor.impossible_us == pytest.approx(0.95 * 989, rel=0.01)
    assert not is_impossible(990.0, floor)
    assert is_impossible(930.0, floor)


def test_the_largest_term_is_the_floor() -> None:
    assert floor_of(Cost(4_250_000, 0), "bf16", H200).time_us == pytest.approx(4.5)
    assert floor_of(Cost(42_500_000, 0), "bf16", H200).time_us == pytest.approx(10.0)
    assert floor_of(Cost(42_500_000, 0, flops=715 * 10**8), "bf16", H200).time_us == pytest.approx(100.0)


def test_the_fastest_stream_counts() -> None:
    faster_reads = Ceilings(1000.0, 900.0, 2000.0, {}, empty_kernel_us=0.1)
    assert floor_of(Cost(2_000_000, 0), "fp32", faster_reads).time_us == pytest.approx(1.0)


def test_impossible_is_below_095_of_the_floor() -> None:
    floor = floor_of(Cost(425_000_000, 0), "fp32", H200)
    assert floor.time_us == pytest.approx(100.0)
    assert not is_impossible(95.1, floor)
    assert is_impossible(94.9, floor)


def test_traffic_gains_of_the_catalogue() -> None:
    assert PROGRAMS["add_mul"].cost(PROGRAMS["add_mul"].case("full", "bf16")).traffic_gain == 1.5
    assert PROGRAMS["chain"].cost(PROGRAMS["chain"].case({"n": 8, "k": 1}, "fp32")).traffic_gain == 3.0


def test_of_two_measurements_the_better_figures_count() -> None:
    one = Ceilings(1.0, 5.0, 3.0, {"bf16": 1.0, "fp32": 2.0}, empty_kernel_us=4.0)
    other = Ceilings(2.0, 4.0, 3.0, {"bf16": 3.0}, empty_kernel_us=5.0)
    assert best_of(one, other) == Ceilings(2.0, 5.0, 3.0, {"bf16": 3.0, "fp32": 2.0}, empty_kernel_us=4.0)


def test_a_16_bit_product_is_bound_by_fp32s_rate_where_that_is_higher(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {"bf16": 0.001, "fp16": 3.0, "fp32": 2.0}
    monkeypatch.setattr(floors, "_matmul_tflops", lambda timer, device, dtype, rounds: rates[dtype])
    found = floors.measure_ceilings("cpu", ["bf16", "fp16", "fp32"], rounds=1).matmul_tflops
    assert found == {"bf16": 2.0, "fp16": 3.0, "fp32": 2.0}
