"""`python -m tests.precompile FOLDER`: the headers of CPU kernels, as the C++ compiler keeps them once parsed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fusewise.runtime import cpp

made = Path(sys.argv[1]) / "fusewise_cpu.h.gch"
part = made.with_suffix(".part")
header = cpp.HEADERS / "fusewise_cpu.h"
command = [*cpp.find_compiler().command, *cpp._flags(), "-x", "c++-header", str(header), "-o", str(part)]
subprocess.run(command, check=True, capture_output=True)
os.replace(part, made)  # whole or not at all
