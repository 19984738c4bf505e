"""Train a module: forward and backward both run fused; dropout's mask is drawn again instead of stored."""

import torch
from torch import nn

import fusewise

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(64), nn.Linear(64, 1))
fast = fusewise.compile(model)  # the same parameters
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(512, 32)
target = x[:, :1] * x[:, 1:2]

for step in range(41):
    loss = nn.functional.mse_loss(fast(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step:2}  loss {loss.item():.3f}")
