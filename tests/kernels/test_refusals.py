"""Arguments that do not fit are refused by name before a launch; none is dropped without a word."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernels.support import close, normal, place, torch
from tritium_kernels import dense
from tritium_kernels.compaction import compaction
from tritium_kernels.dense.adamw_step import adamw_
from tritium_kernels.dense.score import ScoreModifier, alibi, softcap
from tritium_kernels.distributed import (
    make_expt_assignment,
    make_expt_dict_random,
    make_expt_dict_uniform,
)
from tritium_kernels.errors import ArgumentError
from tritium_kernels.matmul import matmul
from tritium_kernels.matmul_ogs import matmul_ogs
from tritium_kernels.numerics_details.mxfp import downcast_to_mxfp
from tritium_kernels.reduce import reduce
from tritium_kernels.routing import compute_metadata, routing
from tritium_kernels.swiglu import PrecisionConfig as Limits
from tritium_kernels.swiglu import swiglu
from tritium_kernels.tensor import (
    convert_layout,
    make_ragged_tensor_metadata,
    remap_ragged_tensor_metadata,
    wrap_torch_tensor,
)
from tritium_kernels.tensor_details.bitmatrix import make_bitmatrix_metadata
from tritium_kernels.topk import topk


def heads(count: int = 4, length: int = 8) -> Any:
    return normal(1, count, length, 16)


def integers(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32, device=place())


def test_aux_of_scores_may_have_any_strides():
    q = heads()
    wide = torch.tensor([0.1, 9, 0.2, 9, 0.3, 9, 0.4, 9], device=place())
    found = dense.attention(q, q, q, score=alibi, aux=wide[::2])
    assert torch.equal(found, dense.attention(q, q, q, score=alibi, aux=wide[::2].contiguous()))
    rows = heads().squeeze(0).transpose(0, 1)
    found = dense.attention_packed(
        rows, rows, rows, integers(0, 8), integers(0, 8), 8, 8, score=alibi, aux=wide[::2]
    )
    right = dense.attention(*3 * [rows.transpose(0, 1)[None]], score=alibi, aux=wide[::2])
    close(found, right[0].transpose(0, 1).double())


@pytest.mark.parametrize(
    ("score", "aux", "message"),
    [
        (alibi, None, r"attention: aux is None; accepted: a tensor of shape \(4,\), for alibi"),
        (softcap, None, r"aux is None; accepted: a tensor of shape \(1,\), for softcap"),
        (alibi, [0.5], r"aux has shape \(1,\); accepted: \(4,\)"),
        (softcap, [0.5, 0.5], r"aux has shape \(2,\); accepted: \(1,\)"),
        (alibi, 0.5, "aux is float; accepted: torch.Tensor or None"),
    ],
)
def test_aux_has_what_the_function_reads(score: ScoreModifier, aux: Any, message: str):
    q = heads()
    aux = torch.tensor(aux, device=place()) if isinstance(aux, list) else aux
    with pytest.raises(ArgumentError, match=message):
        dense.attention(q, q, q, score=score, aux=aux)


def negative(x: Any) -> Any:
    """x, as torch hands on the imaginary part of a conjugate: with the other sign in memory."""
    view = torch.complex(x, -x).conj().imag
    assert view.is_neg()
    return view


@pytest.mark.every(3)
@pytest.mark.parametrize("call", [
    dense.softmax, lambda x: dense.matmul(x, normal(64, 8)), dense.rms_norm,
    lambda x: topk(x, 2, apply_softmax=False).vals, dense.cumsum, dense.quantize,
    lambda x: reduce(x[None], 0)[0], lambda x: dense.swiglu(x, x), dense.sort,
])  # fmt: skip
def test_negative_views_are_read_as_what_they_are(call: Any):
    """Also after calls with other tensors of the same shape and strides."""
    x = normal(4, 64)
    right = call(x)
    for given in (*[torch.complex(x, x).imag] * 3, negative(x)):
        torch.testing.assert_close(call(given), right)


def test_negative_gradients_are_read_as_what_they_are():
    x, w = normal(4, 64), normal(4, 64, seed=2).requires_grad_()
    found = [torch.autograd.grad(dense.rms_norm(w), w, dy)[0] for dy in (x, x, x, negative(x))]
    torch.testing.assert_close(found[3], found[0])


@pytest.mark.parametrize(
    "step", [adamw_, lambda *xs: dense.adamw_foreach_(*([x] for x in xs[:4]), 1)]
)
def test_negative_views_are_not_written_to(step: Any):
    given = [normal(3, 4, seed=s).abs() for s in range(4)]
    for _ in range(3):
        copies = [x.clone() for x in given], [x.clone() for x in given]
        step(*copies[0], 1)
        step(copies[1][0], negative(copies[1][1]), *copies[1][2:], 1)
        torch.testing.assert_close(copies[0][0], copies[1][0])
    for written in (0, 2, 3):
        some = [negative(x) if i == written else x for i, x in enumerate(given)]
        with pytest.raises(ArgumentError, match="is a negative view; accepted: a tensor whose"):
            step(*some, 1)


def wanted(*shape: int) -> Any:
    return normal(*shape).requires_grad_()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dense.attention(*3 * [heads()], score=alibi, aux=wanted(4)),
         "attention: aux requires grad"),
        (lambda: dense.linear_attention(*3 * [heads()], decay=wanted(4)),
         "linear_attention: decay requires grad"),
        (lambda: dense.rope(heads(), wanted(8, 8), normal(8, 8)), "rope: cos requires grad"),
        (lambda: dense.dequantize(dense.quantize(normal(3, 4))[0], wanted(3)),
         "dequantize: scale requires grad"),
        (lambda: reduce(normal(2, 3, 4), 0, scale=wanted(2, 3, 4)), "reduce: scale requires grad"),
    ],
)  # fmt: skip
def test_a_gradient_that_is_not_built_is_refused(call: Any, message: str):
    with pytest.raises(NotImplementedError, match=message):
        call()
    with torch.no_grad():
        call()


PACKED = [
    ([0, 200], 100, "most_queries is 100; accepted: 200 or more"),
    ([0, 400], 400, "q_offsets is from 0 to 400; accepted: 0 to 200, the rows of q"),
    ([-1, 200], 400, "q_offsets is from -1 to 200"),
    ([0, 150, 100, 200], 200, r"q_offsets is \[0, 150, 100, 200\]; accepted: numbers that do not"),
]


@pytest.mark.parametrize(("offsets", "most", "message"), PACKED)
def test_packed_sequences_lie_within_the_rows(offsets: list[int], most: int, message: str):
    if place() != "cpu":
        return
    x = normal(200, 2, 16)
    at = integers(*offsets)
    with pytest.raises(ArgumentError, match=message):
        dense.attention_packed(x, x, x, at, at, most, 400)
    keys = message.replace("q_offsets", "k_offsets").replace("of q", "of k")
    with pytest.raises(ArgumentError, match=keys.replace("most_queries", "most_keys")):
        whole = integers(*[0] * (len(offsets) - 1), 200)
        dense.attention_packed(x, x, x, whole, at, 200, most)


@pytest.mark.parametrize(
    ("table", "lengths", "message"),
    [
        ([[0, 1], [1, 4]], [3, 3], "table has 4; accepted: 0 to 3, the pages"),
        ([[0, 1], [-1, 2]], [3, 3], "table has -1; accepted: 0 to 3"),
        ([[0, 1], [1, 2]], [3, 5], "lengths has 5; accepted: 0 to 4, the rows of a sequence's"),
        ([[0, 1], [1, 2]], [-3, 4], "lengths has -3; accepted: 0 to 4"),
    ],
)
def test_pages_exist(table: Any, lengths: Any, message: str):
    if place() != "cpu":
        return
    pages, q = normal(4, 2, 1, 16), normal(2, 2, 16)
    with pytest.raises(ArgumentError, match=message):
        dense.paged_attention(q, pages, pages, torch.tensor(table), torch.tensor(lengths))


def test_a_table_s_unused_entries_may_be_anything():
    pages, q = normal(4, 2, 1, 16), normal(2, 2, 16)
    for filler in (-1, 99):
        table = torch.tensor([[0, 1], [3, filler]], device=place())
        dense.paged_attention(q, pages, pages, table, torch.tensor([4, 2], device=place()))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.complex64, torch.bool])
def test_results_of_products_are_floats(dtype: Any):
    a = normal(2, 3)
    with pytest.raises(ArgumentError, match=r"matmul: out_dtype is torch\..*; accepted: torch.fl"):
        dense.matmul(a, a.mT, out_dtype=dtype)
    if dtype != torch.int64:
        ones = torch.ones(2, 3, dtype=torch.int8, device=place())
        with pytest.raises(ArgumentError, match=r"out_dtype is .*for torch.int8"):
            dense.matmul(ones, ones.mT, out_dtype=dtype)


def test_meta_tensors_have_shapes():
    x, w = (torch.empty(shape, device="meta", dtype=torch.bfloat16) for shape in ((3, 8), (8,)))
    assert dense.softmax(x).shape == (3, 8)
    assert dense.layer_norm(x, w, w).device.type == "meta"
    assert dense.matmul(x, x.mT).shape == (3, 3)
    q = torch.empty(1, 2, 4, 16, device="meta")
    assert dense.attention(q, q, q).shape == q.shape
    with pytest.raises(ArgumentError, match="topk: x is on meta; accepted: "):
        topk(x.float(), 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dense.attention(*3 * [heads()], window=5), "attention: window is 5; accepted: "),
        (lambda: dense.attention(*3 * [heads()], window=(1, 2, 3)), r"window is \(1, 2, 3\)"),
        (lambda: dense.attention(*3 * [heads()], window=(1.5, 2)), r"window is \(1.5, 2\)"),
        (lambda: dense.attention(*3 * [heads()], scale="a"), "scale is 'a'; accepted: a number"),
        (lambda: dense.attention(*3 * [heads()], seed=1 << 64), "seed is 18446744073709551616"),
        (lambda: dense.attention(*3 * [heads()], dropout="a"), "dropout is 'a'; accepted: 0 <= d"),
        (lambda: dense.attention_packed(*3 * [normal(4, 2, 16)], *2 * [integers(0, 4)], None, 4),
         "most_queries is None; accepted: an integer, 0 to 2147483647"),
        (lambda: dense.group_norm(normal(2, 6), 2.0), "group_norm: groups is 2.0; accepted: a di"),
        (lambda: dense.softmax(normal(3), dim=None), "softmax: dim is None; accepted: -1 to 0"),
        (lambda: dense.cumsum(normal(3), dim=0.0), "cumsum: dim is 0.0; accepted: -1 to 0"),
        (lambda: dense.sort(normal(3), dim="a"), "sort: dim is 'a'; accepted: -1 to 0"),
        (lambda: dense.layer_norm(normal(3), eps="a"), "layer_norm: eps is 'a'; accepted: eps >= "),
        (lambda: dense.group_norm(normal(2, 6), 2, eps=None), "eps is None; accepted: eps >= 0"),
        (lambda: dense.histogram(normal(3), 3.5, 0, 1), "bins is 3.5; accepted: an integer, 1 to"),
        (lambda: dense.histogram(normal(3), 3, "a", 1), "low is 'a'; accepted: a finite number"),
        (lambda: dense.quantize(normal(3, 4), group=2.0), "group is 2.0; accepted: None, or a div"),
        (lambda: dense.sample(normal(3, 7), top_k=1.5), "top_k is 1.5; accepted: 1 or more"),
        (lambda: dense.sample(normal(3, 7), "a"), "temperature is 'a'; accepted: 0 or more"),
        (lambda: dense.sample(normal(3, 7), top_p="a"), "top_p is 'a'; accepted: 0 < top_p"),
        (lambda: dense.cross_entropy(normal(1, 4), integers(0), ignore_index="a"),
         "cross_entropy: ignore_index is 'a'; accepted: an integer"),
        (lambda: dense.linear_cross_entropy(normal(1, 4), normal(3, 4), integers(0), z_loss="a"),
         "linear_cross_entropy: z_loss is 'a'; accepted: a number"),
        (lambda: dense.embedding(integers(0), normal(3, 4), "a"),
         "embedding: padding_idx is 'a'; accepted: an integer, 0 to 2, or None"),
        (lambda: topk(normal(3, 4), 1.5), "topk: k is 1.5; accepted: 1 to 4, the columns of x"),
        (lambda: adamw_(*4 * [normal(3)], 1.5), "adamw_: step is 1.5; accepted: step >= 1"),
        (lambda: adamw_(*4 * [normal(3)], 1, "a"), "adamw_: lr is 'a'; accepted: 0 <= lr"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call: Any, message: str):
    with pytest.raises(ArgumentError, match=message):
        call()


def test_adamw_refuses_elements_that_share_memory():
    with pytest.raises(ArgumentError, match="adamw_: first has elements that share memory; acc"):
        adamw_(normal(3), normal(3), normal(1).expand(3), normal(3).abs(), 1)


def of_experts(**given: Any) -> Any:
    return matmul(normal(4, 8), normal(8, 6), None, **given)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dense.cross_entropy(normal(1, 4), integers(0), ignore_index=1 << 63),
         "cross_entropy: ignore_index is 9223372036854775808; accepted: -9223372036854775808 to"),
        (lambda: dense.attention(*3 * [heads()], window=(1 << 31, 0)), "accepted: .left, right., "),
        (lambda: reduce([1.0], 1), "reduce: x is list; accepted: torch.Tensor"),
        (lambda: reduce(normal(2, 3, 4), 1, scale=0.5), "reduce: scale is float; accepted: torch."),
        (lambda: reduce(normal(2, 3, 4), 1, postprocess_fn1=5), "fn1 is int; accepted: Postproces"),
        (lambda: reduce(normal(2, 3, 4), 1, y=[1.0]), "reduce: y is list; accepted: Tensor"),
        (lambda: swiglu(None, 1.0, Limits()), "swiglu: a is NoneType; accepted: Tensor"),
        (lambda: swiglu(normal(2, 4), "a", Limits()), "swiglu: alpha is 'a'; accepted: a number"),
        (lambda: swiglu(normal(2, 4), 1.0, None), "precision_config is NoneType; accepted: Precis"),
        (lambda: swiglu(normal(2, 4), 1.0, Limits("a")), "config.limit is 'a'; accepted: a number"),
        (lambda: downcast_to_mxfp(normal(2, 4), torch.uint8, None), "axis is None; accepted: an i"),
        (lambda: topk(normal(2, 4), 2, n_rows=-1), "topk: n_rows is -1; accepted: 0 to 21474"),
        (lambda: topk(normal(2, 4), 2, symm_mem_pool=3), "accepted: SymmetricMemoryPool"),
        (lambda: routing(normal(2, 4).double(), 2), "routing: logits has dtype float64; accepted:"),
        (lambda: routing(normal(2, 4), 5), "routing: n_expts_act is 5; accepted: 1 to 4, the colu"),
        (lambda: routing(normal(2, 4), 2, expt_indx=integers(1)), "routing: expt_indx has shape"),
        (lambda: routing(normal(2, 4), 2, simulated_ep=0), "routing: simulated_ep is 0; accepted:"),
        (lambda: matmul_ogs(normal(2, 4), normal(3, 4, 5), None, 5), "accepted: RoutingData"),
        (lambda: of_experts(gather_indx=3), "matmul: gather_indx is int; accepted: torch.Tensor"),
        (lambda: of_experts(gather_indx=integers(1)[0]), "gather_indx has 0 dimensions; accepted:"),
        (lambda: of_experts(precision_config="a"), "precision_config is str; accepted: Precision"),
        (lambda: of_experts(epilogue=5), "matmul: epilogue is int; accepted: Epilogue"),
        (lambda: of_experts(c=5), "matmul: c is int; accepted: Tensor"),
        (lambda: make_ragged_tensor_metadata(integers(1), 1 << 31), "n_total_rows is 2147483648; "),
    ],
)  # fmt: skip
def test_errors_name_the_argument_of_experts(call: Any, message: str):
    with pytest.raises(ArgumentError, match=message):
        call()


def sparse(rows: int = 2) -> Any:
    return topk(normal(rows, 4), 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dense.attention(*3 * [heads()], causal="no"), "attention: causal is 'no'; accept"),
        (lambda: dense.attention(*3 * [heads()], causal=None), "causal is None; accepted: True or"),
        (lambda: dense.cumsum(normal(3), reverse=torch.ones(2)), "cumsum: reverse is tensor"),
        (lambda: dense.sort(normal(3), descending=1), "sort: descending is 1; accepted: True or F"),
        (lambda: dense.rope(heads(), *2 * [normal(8, 8)], "yes"), "rope: interleaved is 'yes'; ac"),
        (lambda: adamw_(*4 * [normal(3)], 1, maximize="a"), "adamw_: maximize is 'a'; accepted: T"),
        (lambda: dense.AdamW([wanted(3)], foreach=3), "AdamW: foreach is 3; accepted: True or Fal"),
        (lambda: topk(normal(2, 4), 2, apply_softmax=None), "topk: apply_softmax is None; accepte"),
        (lambda: routing(normal(2, 4), 2, renormalize=1), "routing: renormalize is 1; accepted: T"),
        (lambda: reduce(normal(2, 3, 4), 1, y_has_mx="a"), "reduce: y_has_mx is 'a'; accepted: Tr"),
        (lambda: dense.group_norm(normal(2, 6), True), "group_norm: groups is True; accepted: a d"),
        (lambda: dense.histogram(normal(3), True, 0, 1), "bins is True; accepted: an integer, 1 t"),
        (lambda: dense.softmax(normal(3), dim=False), "softmax: dim is False; accepted: -1 to 0"),
        (lambda: topk(normal(2, 4), 2, dim=torch.ones(2)), "topk: dim is tensor.*; accepted: 1, -"),
        (lambda: reduce(normal(2, 3, 4), torch.ones(2)), "reduce: dim is tensor.*; accepted: 0, 1"),
        (lambda: downcast_to_mxfp(normal(2, 4), torch.uint8, True), "axis is True; accepted: an i"),
    ],
)  # fmt: skip
def test_flags_are_booleans_and_numbers_are_not(call: Any, message: str):
    with pytest.raises(ArgumentError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dense.attention(*3 * [heads()], aux=normal(4)), "aux is given without score; acc"),
        (lambda: dense.adamw_foreach_(None, [], [], [], 1), "parameters is NoneType; accepted: a"),
        (lambda: dense.adamw_foreach_([], normal(3), [], [], 1), "gradients is Tensor; accepted:"),
        (lambda: topk(normal(2, 4), 2, n_rows=1 << 40), "n_rows is 1099511627776; accepted: 0 to"),
        (lambda: topk(normal(2, 4), 2, n_rows=normal(1)), "topk: n_rows has dtype float32; accept"),
        (lambda: topk(normal(2, 4), 2, n_rows=integers(1, 2)), r"n_rows has shape \(2,\); accepte"),
        (lambda: reduce(normal(2, 3, 4), 0, unpadded_batch_size=-1), "unpadded_batch_size is -1;"),
        (lambda: reduce(normal(2, 3, 4), 0, unpadded_batch_size="a"), "unpadded_batch_size is 'a'"),
        (lambda: make_bitmatrix_metadata(sparse().indx, None), "bitmatrix is NoneType; accepted:"),
        (lambda: make_bitmatrix_metadata(sparse(3).indx, sparse().mask), "nonzero_indx has 3 rows"),
        (lambda: remap_ragged_tensor_metadata(None, integers(0)), "src_ragged_tensor_metadata is"),
        (lambda: compute_metadata(None, 4, 16), "routing_data is NoneType; accepted: RoutingData"),
        (lambda: compute_metadata(routing(normal(2, 4), 2)[0], 4, 17), "block_m is 17; accepted:"),
        (lambda: compute_metadata(routing(normal(2, 4), 2)[0], -1, 16), "compute_metadata: n_rows"),
        (lambda: make_expt_dict_uniform(0, 4), "n_expt_shard is 0; accepted: 1 to 2147483647"),
        (lambda: make_expt_dict_random(2, -1), "n_expt_tot is -1; accepted: 0 to 2147483647"),
        (lambda: make_expt_assignment(1, 1, None, "cpu"), "expt_dict is NoneType; accepted: Mappi"),
        (lambda: matmul_ogs(None, normal(4, 5), None), "matmul_ogs: x is NoneType; accepted: torc"),
        (lambda: matmul_ogs(normal(2, 4), normal(3, 5), None), "w has 3 rows.* the columns of x$"),
        (lambda: wrap_torch_tensor(None), "wrap_torch_tensor: torch_tensor is NoneType; accepted"),
        (lambda: wrap_torch_tensor(normal(3), shape=(-1,)), r"shape is \(-1,\); accepted: a seque"),
        (lambda: wrap_torch_tensor(normal(3), dtype="a"), "dtype is str; accepted: .*FloatType"),
        (lambda: convert_layout(wrap_torch_tensor(normal(3)), None), "layout is NoneType; accepte"),
        (lambda: compaction(normal(2, 3), integers(0), integers(0)), r"yi has shape \(1,\); accep"),
    ],
)  # fmt: skip
def test_errors_name_what_is_no_argument_at_all(call: Any, message: str):
    with pytest.raises(ArgumentError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dense.quantize(wanted(3, 4)), "quantize: x requires grad"),
        (lambda: downcast_to_mxfp(wanted(2, 32), torch.float8_e5m2, 1), "mxfp: x requires grad"),
        (lambda: compaction(wanted(2, 1), *2 * [integers(0, 0)[:, None]]), "yv requires grad"),
    ],
)
def test_a_gradient_is_not_dropped(call: Any, message: str):
    """Results of floating point would have none."""
    with pytest.raises(NotImplementedError, match=message):
        call()
    with torch.no_grad():
        call()


def test_columns_to_keep_are_columns_of_the_mask():
    if place() != "cpu":
        return
    index = torch.tensor([[0, 31], [-1, 32]])
    for words in (0, 1):
        bits = torch.full((2, words), -1, dtype=torch.int32)
        with pytest.raises(ArgumentError, match=f"yi has 32; accepted: less than {32 * words}"):
            compaction(normal(2, 2), index, bits)
    values, columns = compaction(normal(2, 2), index, torch.full((2, 2), -1, dtype=torch.int32))
    assert columns.tolist() == [[0, 31], [32, -1]] and values[1, 1] == -1


def test_slices_and_columns_exist():
    if place() != "cpu":
        return
    with pytest.raises(ArgumentError, match="slice_sizes has 12 rows; accepted: 2 or fewer in all"):
        make_ragged_tensor_metadata(integers(9, 3), 2)
    with pytest.raises(ArgumentError, match="slice_sizes has -1; accepted: 0 or more"):
        make_ragged_tensor_metadata(integers(3, -1), 2)
    x = normal(2, 4)
    for column in (4, -2):
        index = torch.full((2, 2), column)
        with pytest.raises(ArgumentError, match=f"y_indx has {column}; accepted: -1 to 3"):
            topk(x, 2, y_indx=index)
        topk(x, 2, y_indx=index, n_rows=0)


def test_adamw_refuses_leaves_in_grad_mode():
    parameter, others = wanted(3), [normal(3, seed=i).abs() for i in range(3)]
    before = parameter.detach().clone()
    with pytest.raises(ArgumentError, match=r"parameter requires grad; .*torch.no_grad"):
        adamw_(parameter, *others, 1)
    assert torch.equal(parameter, before)
    with torch.no_grad():
        adamw_(parameter, *others, 1)
    assert not torch.equal(parameter, before)
