"""Use Fusewise through torch.compile, by name; its options go into `options`."""

import torch
import torch.nn.functional as F


def residual(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x + F.relu(y), (x.shape[-1],))


x, y = torch.randn(64, 512), torch.randn(64, 512)
balanced = torch.compile(residual, backend="fusewise")
exact = torch.compile(residual, backend="fusewise", options={"policy": "conservative"})

print(f"balanced: largest difference to eager {(balanced(x, y) - residual(x, y)).abs().max():.1e}")
print(f"conservative: equal bit for bit: {torch.equal(exact(x, y), residual(x, y))}")
