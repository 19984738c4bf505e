"""Convolution with what follows it at inference: batch norm, ReLU and pooling."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.common import INT64, Inputs, tensor_bytes
from fusewise.measure.program import Built, Case, Cost, Program

KERNEL = 3
POOL = 2


def _build_conv_bn_relu_pool(case: Case) -> Built:
    inputs = Inputs(case)
    channels = case.size["channels"]
    norm = nn.BatchNorm2d(channels, device=case.device, dtype=case.dtype)
    conv = nn.Conv2d(channels, channels, KERNEL, padding=1, device=case.device, dtype=case.dtype)
    conv.weight = nn.Parameter(conv.weight.detach().contiguous(memory_format=torch.channels_last))
    module = nn.Sequential(conv, norm, nn.ReLU(), nn.MaxPool2d(POOL))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(inputs.normal(*parameter.shape, scale=0.05, grad=False))
        norm.weight.add_(1.0)
        assert norm.running_mean is not None and norm.running_var is not None
        norm.running_mean.copy_(inputs.normal(channels, scale=0.1, grad=False))
        norm.running_var.copy_(inputs.normal(channels, scale=0.1, shift=1.0, grad=False).abs())
    x = inputs.normal(case.size["batch"], channels, case.size["height"], case.size["width"])
    return module.eval(), (x.contiguous(memory_format=torch.channels_last),)


def _conv_bn_relu_pool_cost(case: Case) -> Cost:
    channels = case.size["channels"]
    pixels = case.size["batch"] * case.size["height"] * case.size["width"]
    image = tensor_bytes(case, pixels, channels)
    pooled = case.size["batch"] * channels * (case.size["height"] // POOL) * (case.size["width"] // POOL)
    weight = tensor_bytes(case, channels, channels, KERNEL, KERNEL)
    vector = tensor_bytes(case, channels)
    # Least: read the image, the weight, the convolution's bias and the norm's four vectors, write what is
    # pooled.
    least = image + weight + 5 * vector + pooled * case.itemsize
    # Unfused: convolution 2; batch norm 2; ReLU 2; pooling reads 1, writes its maxima and their indices.
    unfused = 7 * image + weight + 5 * vector + pooled * (case.itemsize + INT64)
    flops = 2 * pixels * channels * channels * KERNEL * KERNEL
    return Cost(least, unfused, flops)


PROGRAMS = (
    Program(
        name="conv_bn_relu_pool",
        build=_build_conv_bn_relu_pool,
        cost=_conv_bn_relu_pool_cost,
        sizes={
            "tiny": {"batch": 2, "channels": 16, "height": 12, "width": 10},
            "small": {"batch": 4, "channels": 64, "height": 56, "width": 56},
            "full": {"batch": 64, "channels": 64, "height": 112, "width": 112},
        },
        tags=frozenset({"channels_last"}),
        note="conv 3x3 + batch norm + ReLU + max pool 2x2, channels last, inference",
    ),
)
