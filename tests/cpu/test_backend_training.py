"""Whole models through Dynamo, AOTAutograd and capture; the numpy interpreter stands in for the compiler."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.capture_oracle import backend


class Block(nn.Module):
    def __init__(self, width: int = 32, p: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4).unbind(0)
        score = q @ k.transpose(-1, -2) / (width // 4) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        weight = F.dropout(score.masked_fill(~mask, float("-inf")).softmax(-1), self.p)
        x = x + self.out((weight @ v).transpose(1, 2).reshape(batch, length, width))
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), self.p)


def test_transformer_block_trains_as_in_eager() -> None:
    torch.manual_seed(0)
    model, x = Block(), torch.randn(2, 8, 32, requires_grad=True)
    wanted = model(x)
    gradients = torch.autograd.grad(wanted.square().sum(), [x, *model.parameters()])

    chosen, recorder = backend()
    found = torch.compile(model, backend=chosen)(x)
    torch.testing.assert_close(found, wanted)
    for got, want in zip(torch.autograd.grad(found.square().sum(), [x, *model.parameters()]), gradients, strict=True):
        torch.testing.assert_close(got, want)
    assert [role for role, _ in recorder.captured] == ["forward", "backward"]
    walls = {r.name for _, captured in recorder.captured for r in captured.reasons}
    assert walls <= {"aten.addmm.default", "aten.mm.default", "aten.bmm.default", "aten.stack.default"}
