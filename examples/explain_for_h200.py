"""Explain a model for GPUs that this machine does not have: nothing is run, and no memory is taken for its tensors.

The command line does the same: fusewise explain examples/explain_for_h200.py:block --device h200 --device l4
"""

import torch
import torch.nn.functional as F
from torch import nn

import fusewise


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.gelu(self.up(self.norm(x)), approximate="tanh")
        return x + F.dropout(self.down(hidden), 0.1, self.training)


block = Block(256).bfloat16()
example_inputs = [torch.empty(4096, 256, dtype=torch.bfloat16, device="meta")]

if __name__ == "__main__":
    explanation = fusewise.explain(block, *example_inputs, device=["h200", "l4"])
    print(explanation)
    for device in explanation.devices:
        spilled = sum((k.resources.spill_store_bytes or 0) for k in device.kernels if k.resources)
        print(f"{device.title}: {len(device.kernels)} kernels, {spilled} bytes spilled")
