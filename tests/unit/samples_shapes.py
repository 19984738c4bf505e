"""Sample calls of the rows that change shapes: views, factories, joins, gathers, reductions, softmax, norms, losses."""

from __future__ import annotations

from typing import Any

import torch

from tests.unit.samples import ALL, BF16, BOOL, F16, F32, F64, FLOATS, I32, I64, NUMBERS, U8, Maker, row

# ---- views

row(
    "view.default _unsafe_view.default reshape.default _reshape_copy.default", ALL, lambda m: [m.hard(4, 6), (3, -1, 2)]
)
row("_reshape_alias.default", ALL, lambda m: [m.hard(4, 6), (8, 3), (3, 1)])
row("view_as.default reshape_as.default", ALL, lambda m: [m.hard(4, 6), m.normal(2, 12)])
row("unflatten.int", ALL, lambda m: [m.hard(4, 6), 1, (2, 3)])
row("flatten.using_ints", ALL, lambda m: [m.hard(4, 3, 2), 1, -1])
row("squeeze.default", ALL, lambda m: [m.hard(1, 6, 1)])
row("squeeze.dim", ALL, lambda m: [m.hard(1, 6, 1), 2])
row("squeeze.dims", ALL, lambda m: [m.hard(1, 6, 1), (0, 1)])
row("unsqueeze.default", ALL, lambda m: [m.hard(4, 6), -1])
row("expand.default broadcast_to.default", ALL, lambda m: [m.hard(4, 1), (3, 4, 5)])
row("expand.default", ALL, lambda m: [m.hard(4, 1), (3, -1, 5)])
row("expand_as.default", ALL, lambda m: [m.hard(4, 1), m.normal(3, 4, 5)])
row("permute.default", ALL, lambda m: [m.hard(2, 3, 4), (2, 0, 1)])
row("transpose.int", ALL, lambda m: [m.hard(2, 3, 4), 0, -1])
row("t.default", ALL, lambda m: [m.hard(3, 4)])
row("t.default", ALL, lambda m: [m.hard(3)])
row("movedim.int", ALL, lambda m: [m.hard(2, 3, 4), 0, 2])
for _slice in ((0, 1, 4), (1, -3, None), (1, 2, 100), (-1, 1, -1, 2), (0, -100, 2), (0, 3, 2), (1, None, None, 3)):
    row("slice.Tensor slice_copy.Tensor", ALL, lambda m, s=_slice: [m.hard(5, 7), *s])
row("select.int select_copy.int", ALL, lambda m: [m.hard(5, 7), 1, -2])
row("narrow.default", ALL, lambda m: [m.hard(5, 7), 1, 2, 3])
row("split.Tensor unsafe_split.Tensor", ALL, lambda m: [m.hard(5, 7), 3, 1])
row("split.sizes split_with_sizes.default unsafe_split_with_sizes.default", ALL, lambda m: [m.hard(5, 7), [1, 4, 2], 1])
row("chunk.default unsafe_chunk.default", ALL, lambda m: [m.hard(5, 7), 3, 1])
row("unbind.int", ALL, lambda m: [m.hard(3, 4), 1])
row("flip.default", ALL, lambda m: [m.hard(3, 4), (0, -1)])
for _diagonal in ((0, 0, 1), (1, 0, 1), (-2, 0, 2), (1, -1, 0)):
    row("diagonal.default", ALL, lambda m, d=_diagonal: [m.hard(4, 5, 6), *d])
row("unfold.default", ALL, lambda m: [m.hard(3, 11), 1, 4, 3])
row("repeat.default", ALL, lambda m: [m.hard(3, 4), (2, 1, 3)])
for _roll in (((2,), (1,)), ((-1, 9), (0, 1)), ((5,), ())):
    row("roll.default", ALL, lambda m, r=_roll: [m.hard(3, 4), *r])
row("view.dtype", (F32,), lambda m: [m.hard(3, 4), I32])
row("view.dtype", (BF16,), lambda m: [m.hard(3, 4), torch.int16])
row("view.dtype", (torch.int16,), lambda m: [m.hard(3, 4), F16])
row("pixel_shuffle.default", ALL, lambda m: [m.hard(2, 8, 3, 5), 2])
row("pixel_unshuffle.default", ALL, lambda m: [m.hard(2, 3, 4, 6), 2])

# ---- factories

row("full.default", ALL, lambda m: [(3, 4), 1], dtype=F32)
row("full.default", (F32,), lambda m: [(3, 4), 0.1], dtype=BF16)
row("full_like.default", ALL, lambda m: [m.normal(3, 4), 1])
row("new_full.default", ALL, lambda m: [m.normal(3, 4), (2, 2), 1])
row("zeros.default ones.default", (F32,), lambda m: [(3, 4)], dtype=BF16)
row("zeros_like.default ones_like.default zero.default", ALL, lambda m: [m.normal(3, 4)])
row("new_zeros.default new_ones.default", ALL, lambda m: [m.normal(3, 4), (2, 2)])
row("scalar_tensor.default", (F32,), lambda m: [0.1], dtype=BF16)
row("fill.Scalar", ALL, lambda m: [m.normal(3, 4), 1])
row("fill.Tensor", ALL, lambda m: [m.normal(3, 4), torch.tensor(1.0)])
row("arange.default", (I64, F32), lambda m: [7])
row("arange.start", (I64, F32), lambda m: [3, 9])
row("arange.start_step", (F32,), lambda m: [0.1, 2.0, 0.3])
row("arange.start_step", (F32,), lambda m: [9, -9, -2], dtype=F32)
row("arange.start_step", (F32,), lambda m: [-1.0, 20.0, 0.7], dtype=BF16)
row("arange.start_step", (F32,), lambda m: [-1.0, 20.0, 0.7], dtype=F64)
row(
    "prims.iota.default",
    (I64,),
    lambda m: [7],
    start=3,
    step=2,
    dtype=I64,
    device=torch.device("cpu"),
    requires_grad=False,
)
row("linspace.default", (F32,), lambda m: [-1.5, 2.0, 9], slack=4)
row("linspace.default", (F32,), lambda m: [-1.5, 2.0, 8], slack=4, dtype=BF16)
row("linspace.default", (F32,), lambda m: [-1.5, 2.0, 1], dtype=F64)
row("eye.default", (F32,), lambda m: [4], dtype=BF16)
row("eye.m", (F32,), lambda m: [3, 5], dtype=I64)
for _shift in (-1, 0, 2):
    row("tril.default triu.default", ALL, lambda m, k=_shift: [m.hard(2, 4, 5), k])

# ---- joins, padding, gathers

row("cat.default", ALL, lambda m: [[m.hard(3, 4), m.hard(3, 2), m.hard(3, 0), m.hard(3, 1)], 1])
row("cat.default", ALL, lambda m: [[m.hard(0), m.hard(3, 2), m.hard(1, 2)]])
row("cat.default", (BF16, F32), lambda m: [[m.hard(3, 4), m.hard(3, 4, dtype=F64)], -1])
row("stack.default", ALL, lambda m: [[m.hard(3, 4), m.hard(3, 4)], -1])
row("constant_pad_nd.default", ALL, lambda m: [m.hard(3, 4), (1, 2, 0, 3), 1])
row("constant_pad_nd.default", FLOATS, lambda m: [m.hard(3, 4), (-1, 2), 0.1])
for _slice in ((0, 1, 4, 1), (1, -3, 100, 1), (1, 1, 7, 2), (0, 2, 2, 1)):

    def _grad(m: Maker, s: tuple[int, ...] = _slice) -> list[Any]:
        dim, start, end, step = s
        like = torch.zeros(5, 7).narrow(0, 0, 5)
        part = like[(slice(None),) * dim + (slice(start, end, step),)]
        return [m.hard(*part.shape), (5, 7), *s]

    def _scatter(m: Maker, s: tuple[int, ...] = _slice) -> list[Any]:
        grad = _grad(m, s)
        return [m.hard(5, 7), grad[0], *s]

    row("slice_backward.default", ALL, _grad)
    row("slice_scatter.default", ALL, _scatter)
row("select_backward.default", ALL, lambda m: [m.hard(5), (5, 7), 1, -2])
row("select_scatter.default", ALL, lambda m: [m.hard(5, 7), m.hard(5), 1, 3])
for _diagonal in ((0, 0, 1), (1, 0, 1), (-2, 1, 0)):
    row(
        "diagonal_backward.default",
        ALL,
        lambda m, d=_diagonal: [m.hard(*torch.zeros(4, 5).diagonal(*d).shape), (4, 5), *d],
    )
    row(
        "diagonal_scatter.default",
        ALL,
        lambda m, d=_diagonal: [m.hard(4, 5), m.hard(*torch.zeros(4, 5).diagonal(*d).shape), *d],
    )
row("diag_embed.default", ALL, lambda m: [m.hard(2, 3), 1])
row("diag_embed.default", ALL, lambda m: [m.hard(2, 3), -1, 0, 2])
row("scatter.src", ALL, lambda m: [m.hard(5, 7), 1, m.index(7, 5, 1), m.hard(6, 2)])
row("scatter.value", ALL, lambda m: [m.hard(5, 7), 0, m.index(5, 1, 7), 1])
row("embedding.default", FLOATS, lambda m: [m.hard(9, 4), m.index(9, 2, 3)])
row("index_select.default", ALL, lambda m: [m.hard(5, 7), 1, m.index(7, 4)])
row("gather.default", ALL, lambda m: [m.hard(5, 7), 1, m.index(7, 4, 3)])
row("take.default", ALL, lambda m: [m.hard(5, 7), m.index(35, 2, 3) - 35])
row("index.Tensor _unsafe_index.Tensor", ALL, lambda m: [m.hard(5, 7, 3), [None, m.index(7, 2, 4) - 7]])
row("index.Tensor", ALL, lambda m: [m.hard(5, 7), [m.index(5, 3)]])

# ---- reductions

for _dims in ((0,), (1, -1), (0, 1, 2), ()):
    row("sum.dim_IntList", ALL, lambda m, d=_dims: [m.normal(4, 5, 6), d], slack=8)
    row("sum.dim_IntList mean.dim", FLOATS, lambda m, d=_dims: [m.hard(4, 3, 2), d, True], slack=8)
    row("amax.default amin.default", ALL, lambda m, d=_dims: [m.hard(4, 5, 6), d])
    row("linalg_vector_norm.default", FLOATS, lambda m, d=_dims: [m.normal(4, 5, 6), 2, d], slack=8)
row("sum.dim_IntList mean.dim nansum.default", FLOATS, lambda m: [m.normal(4, 60), (1,)], slack=8)
row("sum.dim_IntList", (BF16, I32), lambda m: [m.normal(4, 60), None], dtype=F32, slack=8)
row("sum.dim_IntList", FLOATS, lambda m: [m.normal(3, 0), (1,)])
row("mean.dim", FLOATS, lambda m: [m.normal(3, 0), (1,)])
row("sum.default", ALL, lambda m: [m.normal(4, 5, 6)], slack=8)
row("sum.default", ALL, lambda m: [m.normal()])
row("mean.default", FLOATS, lambda m: [m.normal(4, 5, 6)], slack=8)
row(
    "nansum.default",
    (*FLOATS, I64),
    lambda m: [
        torch.where(m.flags(4, 9), m.normal(4, 9).double(), float("nan")).to(m.dtype)
        if m.dtype.is_floating_point
        else m.normal(4, 9),
        (1,),
    ],
    slack=8,
)
row("trace.default", NUMBERS, lambda m: [m.normal(5, 3)], slack=4)
row("prod.default", NUMBERS, lambda m: [m.positive(2, 4)], slack=64)
row("prod.dim_int", NUMBERS, lambda m: [m.positive(3, 5), 1], slack=64)
row("max.default min.default", ALL, lambda m: [m.hard(4, 5)])
row("max.dim min.dim", ALL, lambda m: [m.hard(4, 5), 1])
row("max.dim min.dim", ALL, lambda m: [m.hard(4, 5), 0, True])
row("max.dim", ALL, lambda m: [m.hard(), 0])
row("argmax.default argmin.default", NUMBERS, lambda m: [m.hard(4, 5), 1])
row("argmax.default argmin.default", NUMBERS, lambda m: [m.hard(4, 5)])
row("argmax.default argmin.default", NUMBERS, lambda m: [m.hard(4, 5), None, True])
row("argmax.default argmin.default", NUMBERS, lambda m: [m.hard(4, 5), 0, True])
row("aminmax.default", ALL, lambda m: [m.hard(4, 5)], dim=1)
row("aminmax.default", ALL, lambda m: [m.hard(4, 5)])
row("any.dim all.dim", ALL, lambda m: [m.hard(4, 5), 1])
row("any.dims all.dims", ALL, lambda m: [m.hard(4, 5), (0, 1), True])
row("any.default all.default", ALL, lambda m: [m.hard(4, 5)])
row("count_nonzero.default", ALL, lambda m: [m.hard(4, 5)])
row("count_nonzero.dim_IntList", ALL, lambda m: [m.hard(4, 5), (1,)])
for _correction in (0, 1, None, 5):
    row(
        "var.correction std.correction var_mean.correction std_mean.correction",
        FLOATS, lambda m: [m.normal(4, 5), (1,)], slack=16, correction=_correction,
    )  # fmt: skip
row(
    "var.correction var_mean.correction", FLOATS, lambda m: [m.normal(4, 5) + 100], slack=64, correction=1, keepdim=True
)
row("var.dim std.dim", FLOATS, lambda m: [m.normal(4, 5), (0,), False, True], slack=16)
row("var.default std.default", FLOATS, lambda m: [m.normal(4, 5)], slack=16)
for _order in (0, 1, 2, 3, float("inf"), -float("inf"), 0.5):
    row("linalg_vector_norm.default", FLOATS, lambda m, p=_order: [m.normal(4, 5), p, (1,)], slack=64)
row("norm.ScalarOpt_dim", FLOATS, lambda m: [m.normal(4, 5), 2, (1,), True], slack=16)
row("norm.ScalarOpt_dim_dtype", (F32, BF16), lambda m: [m.normal(4, 5), None, (1,), True], slack=16, dtype=F64)
row("norm.Scalar", FLOATS, lambda m: [m.normal(4, 5)], slack=16)
row("norm.ScalarOpt_dtype", (F32, BF16), lambda m: [m.normal(4, 5), 1], slack=16, dtype=F64)

# ---- softmax

row("_softmax.default _log_softmax.default", FLOATS, lambda m: [m.normal(4, 9) * 4, 1, False], slack=8)
row("_softmax.default _log_softmax.default", FLOATS, lambda m: [m.hard(6, 3), 0, False], slack=8)
row(
    "_safe_softmax.default",
    FLOATS,
    lambda m: [torch.where(m.flags(9, 2), m.normal(9, 2), float("-inf")).to(m.dtype), 1],
    slack=8,
)
row(
    "_softmax.default _log_softmax.default",
    FLOATS,
    lambda m: [torch.full((2, 3), float("-inf")).to(m.dtype), -1, False],
)
row(
    "_softmax_backward_data.default",
    FLOATS,
    lambda m: [m.normal(4, 9), torch.softmax(m.normal(4, 9), 1), 1, m.dtype],
    slack=8,
)
row(
    "_log_softmax_backward_data.default", FLOATS,
    lambda m: [m.normal(4, 9), torch.log_softmax(m.normal(4, 9), 1), 1, m.dtype], slack=32,
)  # fmt: skip
row("logsumexp.default", FLOATS, lambda m: [m.hard(6, 5), (1,)], slack=8)
row("logsumexp.default", (*FLOATS, I64, BOOL), lambda m: [m.normal(6, 5), (0, 1), True], slack=8)

# ---- norms

for _weights in ((True, True), (True, False), (False, False)):
    row(
        "native_layer_norm.default", FLOATS,
        lambda m, w=_weights: [m.normal(4, 3, 6), (6,), *(m.normal(6) if given else None for given in w), 1e-5],
        slack=16,
    )  # fmt: skip


def _layer_norm_gradient(m: Maker, mask: tuple[bool, ...], weighted: bool) -> list[Any]:
    x, weight = m.normal(5, 6), m.normal(6) if weighted else None
    mean, inverse = torch.ops.aten.native_layer_norm(x, (6,), weight, None, 1e-5)[1:]
    bias = m.normal(6) if mask[2] else None
    return [m.normal(5, 6), x, (6,), mean, inverse, weight, bias, list(mask)]


row("native_layer_norm_backward.default", FLOATS, lambda m: _layer_norm_gradient(m, (True, True, True), True), slack=32)
row(
    "native_layer_norm_backward.default",
    FLOATS,
    lambda m: _layer_norm_gradient(m, (True, False, False), False),
    slack=32,
)
row("_fused_rms_norm.default", FLOATS, lambda m: [m.normal(4, 6), (6,), m.normal(6), 1e-6], slack=16)
row("_fused_rms_norm.default", FLOATS, lambda m: [m.normal(4, 6), (6,), None, None], slack=16)
row(
    "native_group_norm.default",
    FLOATS,
    lambda m: [m.normal(2, 6, 5), m.normal(6), m.normal(6), 2, 6, 5, 3, 1e-5],
    slack=16,
)
row("native_group_norm.default", FLOATS, lambda m: [m.normal(2, 6, 2, 2), None, None, 2, 6, 4, 2, 1e-5], slack=16)


def _group_norm_gradient(m: Maker) -> list[Any]:
    x, weight = m.normal(2, 6, 5), m.normal(6)
    mean, inverse = torch.ops.aten.native_group_norm(x, weight, None, 2, 6, 5, 3, 1e-5)[1:]
    return [m.normal(2, 6, 5), x, mean, inverse, weight, 2, 6, 5, 3, [True, True, True]]


row("native_group_norm_backward.default", (F32, F64, BF16), _group_norm_gradient, slack=64)
row(
    "_native_batch_norm_legit_no_training.default", FLOATS,
    lambda m: [m.normal(4, 3, 5), m.normal(3), m.normal(3), m.normal(3), m.positive(3), 0.1, 1e-5], slack=16,
)  # fmt: skip
row(
    "_native_batch_norm_legit.no_stats",
    FLOATS,
    lambda m: [m.normal(4, 3, 5), m.normal(3), m.normal(3), True, 0.1, 1e-5],
    slack=16,
)
for _training in (True, False):
    row(
        "_native_batch_norm_legit_functional.default", FLOATS,
        lambda m, t=_training: [m.normal(4, 3, 5), m.normal(3), m.normal(3), m.normal(3), m.positive(3), t, 0.1, 1e-5],
        slack=16,
    )  # fmt: skip


row(
    "_batch_norm_with_update_functional.default",
    (F32, F64),
    lambda m: [m.normal(4, 3, 5), m.normal(3), m.normal(3), m.normal(3), m.positive(3), 0.1, 1e-5],
    slack=16,
)


def _batch_norm_gradient(m: Maker, train: bool) -> list[Any]:
    x, weight, mean, var = m.normal(4, 3, 5), m.normal(3), m.normal(3), m.positive(3)
    saved = torch.ops.aten._native_batch_norm_legit.no_stats(x, weight, None, True, 0.1, 1e-5)[1:]
    given = saved if train else (x.new_empty(0), x.new_empty(0))
    return [m.normal(4, 3, 5), x, weight, mean, var, *given, train, 1e-5, [True, True, True]]


row("native_batch_norm_backward.default", (F32, F64), lambda m: _batch_norm_gradient(m, True), slack=64)
row(
    "batch_norm_backward.default",
    (F32, F64),
    lambda m: [*_batch_norm_gradient(m, True), torch.empty(0, dtype=U8)],
    slack=64,
)
row("native_batch_norm_backward.default", (F32, F64), lambda m: _batch_norm_gradient(m, False), slack=64)

# ---- losses

for _reduction in (0, 1, 2):
    row(
        "mse_loss.default soft_margin_loss.default",
        FLOATS,
        lambda m, r=_reduction: [m.normal(4, 5), m.normal(4, 5), r],
        slack=16,
    )
    row(
        "smooth_l1_loss.default huber_loss.default",
        FLOATS,
        lambda m, r=_reduction: [m.normal(4, 5), m.normal(4, 5), r, 0.7],
        slack=16,
    )
    row(
        "binary_cross_entropy_with_logits.default", FLOATS,
        lambda m, r=_reduction: [m.normal(4, 5), m.unit(4, 5), m.unit(4, 5), m.unit(5), r], slack=16,
    )  # fmt: skip

    def _upstream(m: Maker, r: int = _reduction) -> torch.Tensor:
        return m.normal(4, 5) if r == 0 else m.normal()

    row(
        "mse_loss_backward.default soft_margin_loss_backward.default",
        FLOATS,
        lambda m, r=_reduction, g=_upstream: [g(m), m.normal(4, 5), m.normal(4, 5), r],
        slack=16,
    )
    row(
        "smooth_l1_loss_backward.default huber_loss_backward.default", FLOATS,
        lambda m, r=_reduction, g=_upstream: [g(m), m.normal(4, 5), m.normal(4, 5), r, 0.7], slack=16,
    )  # fmt: skip
    row(
        "binary_cross_entropy_backward.default", FLOATS,
        lambda m, r=_reduction, g=_upstream: [g(m), m.unit(4, 5), m.unit(4, 5), m.unit(5), r], slack=64,
    )  # fmt: skip
    for _weighted in (False, True):

        def _nll(m: Maker, r: int = _reduction, w: bool = _weighted) -> list[Any]:
            target = m.index(5, 6)
            target[2] = -100
            return [m.normal(6, 5), target, m.unit(5) if w else None, r, -100]

        def _nll_gradient(m: Maker, r: int = _reduction, w: bool = _weighted) -> list[Any]:
            x, target, weight, *rest = _nll(m, r, w)
            total = torch.ops.aten.nll_loss_forward(x, target, weight, *rest)[1]
            return [m.normal(6) if r == 0 else m.normal(), x, target, weight, *rest, total]

        def _nll_2d(m: Maker, r: int = _reduction, w: bool = _weighted) -> list[Any]:
            return [m.normal(2, 5, 3, 4), m.index(5, 2, 3, 4), m.unit(5) if w else None, r, 1]

        def _nll_2d_gradient(m: Maker, r: int = _reduction, w: bool = _weighted) -> list[Any]:
            x, target, weight, *rest = _nll_2d(m, r, w)
            total = torch.ops.aten.nll_loss2d_forward(x, target, weight, *rest)[1]
            return [m.normal(2, 3, 4) if r == 0 else m.normal(), x, target, weight, *rest, total]

        row("nll_loss_forward.default", FLOATS, _nll, slack=16)
        row("nll_loss_backward.default", FLOATS, _nll_gradient, slack=16)
        row("nll_loss2d_forward.default", FLOATS, _nll_2d, slack=16)
        row("nll_loss2d_backward.default", FLOATS, _nll_2d_gradient, slack=16)
row("nll_loss_forward.default", FLOATS, lambda m: [m.normal(5), torch.tensor(3), None, 1, -100])
row("nll_loss_forward.default", FLOATS, lambda m: [m.normal(3, 5), torch.full((3,), -100), None, 1, -100])
