"""The thin layer over a CUDA device: memory, launches, graphs, events. What the lab does with them is in `gpu`.

`Driver` is what the lab asks of a device; `CudaDriver` gives it through cuda-core (device, compiler) and cuda-bindings
(everything whose name has stayed the same since CUDA 12).
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from fusewise.errors import EnvironmentFailure, LaunchFailed
from fusewise.lab.chain import Floats
from fusewise.lab.compile import HOW_TO_INSTALL, core

Call = Callable[[], None]
Argument = np.generic
"""One kernel argument with the kernel's own type: np.uint64 for a pointer or a 64-bit count, np.int32, np.float32."""


class Driver(Protocol):
    """One CUDA device."""

    name: str
    sm_count: int
    cache_bytes: int
    memory_bytes: int

    def load(self, cubin: bytes, entry: str) -> Any:
        """The kernel of that name."""
        ...

    def allocate(self, size_bytes: int) -> int:
        """Address of new device memory."""
        ...

    def free(self, address: int) -> None:
        """Give memory back."""
        ...

    def upload(self, address: int, data: Floats) -> None:
        """Copy to the device."""
        ...

    def download(self, address: int, n: int) -> Floats:
        """Copy `n` floats from the device, after all that was started has ended."""
        ...

    def copier(self, target: int, source: int, size_bytes: int) -> Call:
        """A call that starts a copy on the device."""
        ...

    def filler(self, address: int, word: int, count: int) -> Call:
        """A call that starts to fill memory with a 32-bit word."""
        ...

    def launcher(
        self,
        kernel: Any,
        grid: int,
        block: int,
        arguments: Sequence[Argument],
        shared_bytes: int = 0,
        cooperative: bool = False,
    ) -> Call:
        """A call that starts the kernel; everything that can be prepared is."""
        ...

    def graph(self, calls: Sequence[Call]) -> Call:
        """A call that replays what these calls start."""
        ...

    def allow_shared(self, kernel: Any, shared_bytes: int) -> None:
        """Let the kernel ask for so much dynamic shared memory, and set the SM's split to all shared memory."""
        ...

    def blocks_per_sm(self, kernel: Any, block: int, shared_bytes: int) -> int:
        """Resident blocks, by the driver's own occupancy call."""
        ...

    def time_ms(self, call: Call) -> float:
        """Time between two events around what the call starts; waits for it."""
        ...

    def state(self) -> dict[str, str]:
        """Clocks, power and driver, as they are now."""
        ...


def open_driver() -> CudaDriver | None:
    """The first CUDA device; None where there is none, or cuda-core is not installed."""
    module = core()
    if module is None:
        return None
    try:
        return CudaDriver(module)
    except Exception:  # no driver library, no device: each has its own error
        return None


def need_driver() -> CudaDriver:
    """As `open_driver`; raises `EnvironmentFailure` that says what is missing."""
    if core() is None:
        raise EnvironmentFailure("the lab runs on a GPU through cuda-core, which does not import here.", HOW_TO_INSTALL)
    found = open_driver()
    if found is None:
        raise EnvironmentFailure(
            "this machine has no CUDA device.",
            "Without one: fusewise lab modes --device rtx5090 compiles and reports; --device cpu measures this CPU.",
        )
    return found


class CudaDriver:
    """The first CUDA device; see `Driver`."""

    def __init__(self, module: Any) -> None:
        """`module`: cuda.core."""
        from cuda.bindings import driver

        self._cu = driver
        device = module.Device(0)
        device.set_current()  # the primary context, which PyTorch uses too
        self.name = str(device.name)
        handle = self._ask(driver.cuDeviceGet(0))
        attributes = driver.CUdevice_attribute
        self.sm_count = self._ask(
            driver.cuDeviceGetAttribute(attributes.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle)
        )
        self.cache_bytes = self._ask(driver.cuDeviceGetAttribute(attributes.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, handle))
        self.memory_bytes = int(self._ask(driver.cuMemGetInfo())[0])
        self._stream = self._ask(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value))
        self._begin, self._end = (self._ask(driver.cuEventCreate(0)) for _ in range(2))

    def _ask(self, answer: tuple[Any, ...]) -> Any:
        """The value of a driver call; raises `LaunchFailed` with the driver's name for what went wrong."""
        code, *values = answer
        if code != self._cu.CUresult.CUDA_SUCCESS:
            _, name = self._cu.cuGetErrorName(code)
            raise LaunchFailed(f"the CUDA driver answered {name.decode() if isinstance(name, bytes) else name}")
        return values[0] if len(values) == 1 else values

    def load(self, cubin: bytes, entry: str) -> Any:
        """See `Driver`."""
        image = ctypes.create_string_buffer(cubin, len(cubin))
        module = self._ask(self._cu.cuModuleLoadData(ctypes.addressof(image)))
        return self._ask(self._cu.cuModuleGetFunction(module, entry.encode()))

    def allocate(self, size_bytes: int) -> int:
        """See `Driver`."""
        return int(self._ask(self._cu.cuMemAlloc(size_bytes)))

    def free(self, address: int) -> None:
        """See `Driver`."""
        self._ask(self._cu.cuMemFree(address))

    def upload(self, address: int, data: Floats) -> None:
        """See `Driver`."""
        self._ask(self._cu.cuMemcpyHtoD(address, data.ctypes.data, data.nbytes))
        self._ask(self._cu.cuCtxSynchronize())  # it may return before the last bytes have arrived

    def download(self, address: int, n: int) -> Floats:
        """See `Driver`."""
        self._ask(self._cu.cuStreamSynchronize(self._stream))
        data = np.empty(n, dtype=np.float32)
        self._ask(self._cu.cuMemcpyDtoH(data.ctypes.data, address, data.nbytes))
        return data

    def copier(self, target: int, source: int, size_bytes: int) -> Call:
        """See `Driver`."""
        return lambda: self._ask(self._cu.cuMemcpyDtoDAsync(target, source, size_bytes, self._stream))

    def filler(self, address: int, word: int, count: int) -> Call:
        """See `Driver`."""
        return lambda: self._ask(self._cu.cuMemsetD32Async(address, word, count, self._stream))

    def launcher(
        self,
        kernel: Any,
        grid: int,
        block: int,
        arguments: Sequence[Argument],
        shared_bytes: int = 0,
        cooperative: bool = False,
    ) -> Call:
        """See `Driver`."""
        held = [np.array(argument) for argument in arguments]  # the driver reads them at each launch
        places = (ctypes.c_void_p * len(held))(*(cell.ctypes.data for cell in held))
        address = ctypes.addressof(places)
        cu, stream, ask = self._cu, self._stream, self._ask

        def start(kept: object = (held, places)) -> None:
            if cooperative:
                ask(cu.cuLaunchCooperativeKernel(kernel, grid, 1, 1, block, 1, 1, shared_bytes, stream, address))
            else:
                ask(cu.cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, shared_bytes, stream, address, 0))

        return start

    def graph(self, calls: Sequence[Call]) -> Call:
        """See `Driver`."""
        cu, stream = self._cu, self._stream
        self._ask(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        for call in calls:
            call()
        recorded = self._ask(cu.cuStreamEndCapture(stream))
        executable = self._ask(cu.cuGraphInstantiate(recorded, 0))
        self._ask(cu.cuGraphUpload(executable, stream))
        return lambda: self._ask(cu.cuGraphLaunch(executable, stream))

    def allow_shared(self, kernel: Any, shared_bytes: int) -> None:
        """See `Driver`."""
        attributes = self._cu.CUfunction_attribute
        size = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        split = attributes.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        self._ask(self._cu.cuFuncSetAttribute(kernel, size, shared_bytes))
        self._ask(self._cu.cuFuncSetAttribute(kernel, split, 100))

    def blocks_per_sm(self, kernel: Any, block: int, shared_bytes: int) -> int:
        """See `Driver`."""
        return int(self._ask(self._cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, block, shared_bytes)))

    def time_ms(self, call: Call) -> float:
        """See `Driver`."""
        self._ask(self._cu.cuEventRecord(self._begin, self._stream))
        call()
        self._ask(self._cu.cuEventRecord(self._end, self._stream))
        self._ask(self._cu.cuEventSynchronize(self._end))
        return float(self._ask(self._cu.cuEventElapsedTime(self._begin, self._end)))

    def state(self) -> dict[str, str]:
        """See `Driver`."""
        return gpu_state()


_STATE = {
    "driver_version": "driver",
    "clocks.sm": "SM clock",
    "clocks.max.sm": "highest SM clock",
    "clocks.mem": "memory clock",
    "power.limit": "power limit",
    "power.draw": "power",
    "temperature.gpu": "temperature in C",
}


def gpu_state() -> dict[str, str]:
    """Clocks, power limit and driver of the first GPU as nvidia-smi tells them; empty where it is not there."""
    command = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(_STATE)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in done.stdout.strip().splitlines()[0].split(",")]
    return dict(zip(_STATE.values(), values, strict=False))
