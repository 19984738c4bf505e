"""What the hardware offers: models of GPUs and of this machine's CPU, occupancy, roofline, calibration.

The calculator itself is `fusewise.device.occupancy.occupancy`: here the name stays the module's.
"""

from fusewise.device.arch import Arch, list_archs, load_arch
from fusewise.device.calc import (
    EndToEnd,
    FusionCalc,
    RateBound,
    calc_end_to_end,
    calc_fusion,
    parse_bytes,
)
from fusewise.device.calibration import Calibration, calibrated
from fusewise.device.cpu import CpuModel, probe_cpu
from fusewise.device.figures import Figure, Source
from fusewise.device.model import DeviceModel, GpuModel, list_names, load, load_gpu
from fusewise.device.occupancy import Occupancy, Step, max_regs_for_blocks, staircase
from fusewise.device.roofline import Floor, floor_us, matmul_flops_per_s, stream_bytes_per_s

__all__ = [
    "Arch",
    "Calibration",
    "CpuModel",
    "DeviceModel",
    "EndToEnd",
    "Figure",
    "Floor",
    "FusionCalc",
    "GpuModel",
    "Occupancy",
    "RateBound",
    "Source",
    "Step",
    "calc_end_to_end",
    "calc_fusion",
    "calibrated",
    "floor_us",
    "list_archs",
    "list_names",
    "load",
    "load_arch",
    "load_gpu",
    "matmul_flops_per_s",
    "max_regs_for_blocks",
    "parse_bytes",
    "probe_cpu",
    "staircase",
    "stream_bytes_per_s",
]
