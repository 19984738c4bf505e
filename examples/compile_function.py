"""Compile a function: one kernel reads x once and writes the result once."""

import torch
import torch.nn.functional as F

import fusewise


def gated_norm(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x * F.silu(gate), (x.shape[-1],), weight)


x, gate, weight = torch.randn(256, 1024), torch.randn(256, 1024), torch.ones(1024)
fast = fusewise.compile(gated_norm)
difference = (fast(x, gate, weight) - gated_norm(x, gate, weight)).abs().max()

print(f"largest difference to eager: {difference:.1e}")
for compiled in fusewise.trace.compiled():
    print(f"{compiled.role}: {', '.join(step.name for step in compiled.plan.kernels)}")
