"""The lab on a GPU: which kernels each row launches, with which arguments, over which buffers."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from fusewise.device import GpuModel, list_names
from fusewise.device.arch import Arch
from fusewise.device.model import load_gpu
from fusewise.device.occupancy import occupancy
from fusewise.errors import UnknownName, UsageError
from fusewise.lab import published
from fusewise.lab.backend import Call, Prepared
from fusewise.lab.chain import ELEMENT_BYTES, has_relu, make_input, scale_of, shift_of
from fusewise.lab.compile import Compiled, capability, compile_row, compiler_name
from fusewise.lab.cuda_source import ENTRY
from fusewise.lab.driver import Driver
from fusewise.lab.spec import BUFFERS, LIVE_UNIT, MAX_BLOCK, MAX_LIVE, Bounds, Settings, Spec

WIDTHS = (1, 2, 4)
ROUNDS = 1  # of the probe, for each element
NAN_WORD = 0x7FC00000
_SENTINEL = np.float32(np.nan)  # equal to nothing: the probe's sum is compared with it and never written
_SCRATCH_FLOATS = MAX_LIVE * MAX_BLOCK


def model_of(device_name: str) -> GpuModel:
    """The device file of a GPU by the driver's name, such as "NVIDIA H200"; raises `UnknownName`."""
    short = re.sub(r"nvidia|geforce|tesla|[^a-z0-9]", "", device_name.lower())
    known = [name for name in list_names() if name != "cpu"]
    for name in sorted(known, key=len, reverse=True):
        if name in short:
            return load_gpu(name)
    raise UnknownName("GPU", device_name, known)


def throttle_bytes(arch: Arch, blocks_per_sm: int) -> int:
    """Dynamic shared memory with which just `blocks_per_sm` blocks fit on an SM, as far as shared memory decides."""
    share = arch.shared_bytes_per_sm // blocks_per_sm // arch.shared_alloc_unit * arch.shared_alloc_unit
    return min(share - arch.shared_reserved_per_block, arch.shared_bytes_per_block_max)


@dataclass(frozen=True, slots=True)
class _Buffers:
    n: int
    x: int
    a: int
    b: int
    y: int

    @property
    def size_bytes(self) -> int:
        return self.n * ELEMENT_BYTES


class GpuBackend:
    """See `Backend`; buffers are kept until another n is asked for."""

    fma = True

    def __init__(self, driver: Driver, model: GpuModel, block: int | None = None) -> None:
        """`block`: threads a block that the command line asks for."""
        self._driver = driver
        self._model = model
        self._block = block or published.BLOCK
        self._buffers: _Buffers | None = None
        self._scratch = driver.allocate(_SCRATCH_FLOATS * ELEMENT_BYTES)
        driver.filler(self._scratch, 0, _SCRATCH_FLOATS)()
        self._compiled: dict[tuple[Spec, int], Compiled] = {}
        self.name = model.name
        self.title = driver.name
        regs = self._kernel(Spec("fused", 4, 4096), 0).resources.regs_per_thread
        self.bounds = Bounds(
            is_gpu=True,
            cache_bytes=driver.cache_bytes,
            widths=WIDTHS,
            max_blocks_per_sm=occupancy(model.arch, regs, 0, self._block).blocks_per_sm,
        )

    def prepare(self, spec: Spec, settings: Settings) -> Prepared:
        """See `Backend`."""
        held = self._buffers_for(spec.n)
        compiled = [self._kernel(spec, phase) for phase in range(_kernel_count(spec))]
        kernels = [self._driver.load(found.cubin, ENTRY) for found in compiled]
        shared = throttle_bytes(self._model.arch, spec.blocks_per_sm) if spec.blocks_per_sm else 0
        for kernel in kernels:
            if shared:
                self._driver.allow_shared(kernel, shared)
        resident = min(self._driver.blocks_per_sm(kernel, self._block, shared) for kernel in kernels)
        if not resident:
            raise UsageError(
                f"{spec.tag} does not fit on an SM at {self._block} threads a block.", "Take a smaller --block."
            )
        grid = settings.grid or self._grid(spec, resident)
        if spec.kind == "phases_one" and grid > resident * self._driver.sm_count:
            raise UsageError(
                f"grid is {grid}, but a barrier across the grid needs every block resident:"
                f" at most {resident * self._driver.sm_count}."
            )
        calls, result = self._calls(spec, kernels, held, grid, shared)
        graphed = spec.kind in ("naive_graph", "phases_graph")
        call = self._driver.graph(calls) if graphed else calls[0] if len(calls) == 1 else _in_turn(calls)
        return Prepared(
            call=call,
            clear=self._clearing(held),
            result=lambda: self._driver.download(result, spec.n),
            block=self._block,
            grid=grid,
            occ_blocks_per_sm=resident,
            resources=max((found.resources for found in compiled), key=lambda used: used.regs_per_thread),
            shared_bytes=shared,
        )

    def time_ms(self, call: Call) -> float:
        """See `Backend`."""
        return self._driver.time_ms(call)

    def state(self) -> dict[str, str]:
        """See `Backend`."""
        return self._driver.state()

    def describe(self) -> dict[str, str]:
        """See `Backend`."""
        return {
            "GPU": self.title,
            "compiler": compiler_name(capability(self._model.arch)),
            "launched from": "Python, through cuda-core and cuda-bindings",
        }

    def _kernel(self, spec: Spec, phase: int) -> Compiled:
        found = self._compiled.get((spec, phase))
        if found is None:
            found = compile_row(spec, self._block, self._model, phase)
            self._compiled[spec, phase] = found
        return found

    def _buffers_for(self, n: int) -> _Buffers:
        if self._buffers is not None and self._buffers.n == n:
            return self._buffers
        if self._buffers is not None:
            for address in (self._buffers.x, self._buffers.a, self._buffers.b, self._buffers.y):
                self._driver.free(address)
            self._buffers = None
        size = n * ELEMENT_BYTES
        if BUFFERS * size > self._driver.memory_bytes:
            raise UsageError(
                f"n is {n}, but {BUFFERS} buffers of it need {BUFFERS * size} bytes,"
                f" and the GPU has {self._driver.memory_bytes} free."
            )
        made = _Buffers(n, *(self._driver.allocate(size) for _ in range(BUFFERS)))
        self._driver.upload(made.x, make_input(n))
        self._buffers = made
        return made

    def _clearing(self, held: _Buffers) -> Call:
        return _in_turn([self._driver.filler(address, NAN_WORD, held.n) for address in (held.a, held.b, held.y)])

    def _grid(self, spec: Spec, resident: int) -> int:
        """One vector a thread; as many blocks as fit at once where a thread must go on with others' elements."""
        whole = -(-spec.n // (self._block * spec.width))
        if spec.kind == "phases_one":
            return min(whole, resident * self._driver.sm_count)
        if spec.kind == "hold":  # the same grid for every number of values: the fused kernel's residency
            return min(whole, self.bounds.max_blocks_per_sm * self._driver.sm_count)
        return whole

    def _calls(
        self, spec: Spec, kernels: list[object], held: _Buffers, grid: int, shared: int
    ) -> tuple[list[Call], int]:
        """What the row starts, in order, and the buffer that holds its result."""
        if spec.kind.startswith("naive"):
            return self._naive(spec, kernels[0], held, grid)
        if spec.kind.startswith("phases"):
            return self._phases(spec, kernels, held, grid), held.y
        arguments: list[np.generic] = [np.uint64(held.x), np.uint64(held.y), np.uint64(spec.n // spec.width)]
        before: list[Call] = []
        if spec.kind in ("fat", "thin"):
            arguments += [np.int32(ROUNDS), _SENTINEL]
        if spec.kind == "thin":
            arguments.append(np.int32(spec.live // LIVE_UNIT))
        if spec.kind == "hold":
            arguments += [np.uint64(self._scratch), _SENTINEL]
        if spec.kind == "fat_published":
            arguments.append(np.uint64(self._scratch))
            before = [self._driver.filler(self._scratch, 0, 1)]
        return [*before, self._driver.launcher(kernels[0], grid, self._block, arguments, shared)], held.y

    def _naive(self, spec: Spec, kernel: object, held: _Buffers, grid: int) -> tuple[list[Call], int]:
        calls: list[Call] = []
        source, target = held.x, held.a
        if spec.kind == "naive_copies":
            calls.append(self._driver.copier(held.a, held.x, held.size_bytes))
            source, target = held.a, held.b
        for stage in range(spec.k):
            arguments: list[np.generic] = [
                np.uint64(source),
                np.uint64(target),
                np.uint64(spec.n // spec.width),
                scale_of(stage),
                shift_of(stage),
                np.int32(has_relu(stage)),
            ]
            calls.append(self._driver.launcher(kernel, grid, self._block, arguments))
            source, target = target, held.a if target == held.b else held.b
        if spec.kind == "naive_copies" and source == held.a:
            calls.append(self._driver.copier(held.y, held.a, held.size_bytes))
            source = held.y
        return calls, source

    def _phases(self, spec: Spec, kernels: list[object], held: _Buffers, grid: int) -> list[Call]:
        n, half = np.uint64(spec.n), np.uint64(spec.n // 2)
        x, t, y = np.uint64(held.x), np.uint64(held.a), np.uint64(held.y)
        launcher = self._driver.launcher
        if spec.kind == "phases_one":
            barrier = np.uint64(self._scratch)
            self._driver.filler(self._scratch, 0, 1)()
            return [launcher(kernels[0], grid, self._block, [x, t, y, n, half, barrier], cooperative=True)]
        return [
            launcher(kernels[0], grid, self._block, [x, t, n]),
            launcher(kernels[1], grid, self._block, [t, y, n, half]),
        ]


def _kernel_count(spec: Spec) -> int:
    return 2 if spec.kind in ("phases_two", "phases_graph") else 1


def _in_turn(calls: list[Call]) -> Call:
    def start() -> None:
        for call in calls:
            call()

    return start
