"""Modules through torch.compile, forward and backward:
`tritium run modules.py DEVICE [NAME]...`."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from comparing import Case, Parts, compare, main
from torch import nn

R = torch.randn


def one(
    module: Any, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32, grad: bool = True
) -> Any:
    """Result of a `Case`: a module (or a function), called once with random inputs."""

    def make(device: torch.device) -> tuple[Any, list[tuple[Any, ...]]]:
        is_function = isinstance(module, Parts) or hasattr(module, "__code__")
        made = module if is_function and not isinstance(module, type) else module()
        if isinstance(made, nn.Module):
            made = made.to(device=device, dtype=dtype)
        inputs = tuple(R(s, dtype=dtype).to(device).requires_grad_(grad) for s in shapes)
        return made, [inputs]

    return make


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 48), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class GatedMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.gate = nn.Linear(48, 64, bias=False), nn.Linear(48, 64, bias=False)
        self.down = nn.Linear(64, 48, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of (batch, heads, length, width)."""
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] * rates
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


class Attention(nn.Module):
    """Causal attention written out, with rotary embedding and a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(48)
        self.qkv, self.out = nn.Linear(48, 144), nn.Linear(48, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, length, 3, 4, width // 4)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = rotated(q) @ rotated(k).mT / math.sqrt(width // 4)
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """A transformer block with RMS norms and torch's own attention."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.RMSNorm(48), nn.RMSNorm(48)
        self.qkv, self.out, self.mlp = nn.Linear(48, 144), nn.Linear(48, 48), GatedMLP()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, length, 3, 3, 16).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.second(x))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(8, 8, 3, groups=8), nn.GroupNorm(2, 8), nn.SiLU(),
        )  # fmt: skip
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.head = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.interpolate(self.up(self.stem(x)), scale_factor=1.5, mode="bilinear")
        return self.head(F.avg_pool2d(x, 2).mean((2, 3)))


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.batch, self.group, self.instance = (
            nn.BatchNorm1d(12), nn.GroupNorm(3, 12), nn.InstanceNorm1d(12, affine=True)
        )  # fmt: skip
        self.layer, self.rms = nn.LayerNorm(100), nn.RMSNorm(100)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (self.batch(x), self.group(x), self.instance(x), self.layer(x), self.rms(x),
                F.normalize(x, dim=-1))  # fmt: skip


class Language(nn.Module):
    """Embedding, a hidden layer, tied output weights, cross entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.hidden = nn.Embedding(211, 32), nn.Linear(32, 32)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = F.relu(self.hidden(self.embedding(tokens))) @ self.embedding.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=3,
                               label_smoothing=0.1)  # fmt: skip


def language(device: torch.device) -> Any:
    tokens = [torch.randint(0, 211, (3, 17), device=device) for _ in range(2)]
    return Language().to(device), [tuple(tokens)]


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.embedding = nn.GRUCell(20, 24), nn.Embedding(30, 20, padding_idx=2)

    def forward(self, tokens: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        for step in self.embedding(tokens).unbind(1):
            state = self.cell(step, state)
        return state


def recurrent(device: torch.device) -> Any:
    tokens = torch.randint(0, 30, (5, 3), device=device)
    return Bag().to(device), [(tokens, R(5, 24, device=device, requires_grad=True))]


def losses(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    target = y.detach().softmax(-1)
    return (F.mse_loss(x, y), F.huber_loss(x, y), F.kl_div(x.log_softmax(-1), target),
            F.binary_cross_entropy_with_logits(x, target), F.cosine_similarity(x, y),
            F.cross_entropy(x, target), F.triplet_margin_loss(x, y, y.flip(0)))  # fmt: skip


def soft(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.softmax(-1), x.log_softmax(0), x.logsumexp((0, 1)), F.softmin(x, 1), F.glu(x[:, :64])


scans = Parts(
    lambda x: x.cumsum(-1), lambda x: x.cumsum(0), lambda x: (x * 0.1 + 1).cumprod(-1),
    lambda x: x.logcumsumexp(-1), lambda x: torch.cummax(x, -1).values,
    lambda x: torch.cummin(x, 0).values, lambda x: x.flip(-1).cumsum(-1),
)  # fmt: skip
# Not prod backward: torch 2.11 fails to write the kernel of one that it splits, for any compiler.
reductions = Parts(
    lambda x: x.sum(-1), lambda x: x.mean(0), lambda x: x.var(-1), lambda x: x.std(),
    lambda x: x.amax(-1), lambda x: x.amin(0), lambda x: x.norm(dim=-1),
    lambda x: x.detach().prod(-1) * 1e-3, lambda x: (x * 0.1).exp().sum(),
)  # fmt: skip


def long(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Long enough for reductions in two steps."""
    return x.sum(), x.var(), x.argmax(), x.abs().amax()


def long_scan(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Long enough for a scan across programs. (A graph that ends with one torch cannot plan.)"""
    sums = (x * 1e-3).cumsum(0).view(3, -1)
    return sums, sums @ sums.T


def choices(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values, order = x.sort(stable=True, dim=-1)
    top = x.topk(5, -1)
    return (
        x.argmax(-1), x.argmin(0), x.max(-1).values, values, order, top.values, top.indices,
        x.median(-1).values, x.kthvalue(3, -1).values,
    )  # fmt: skip


def indexing(device: torch.device) -> Any:
    rows, columns = torch.randint(0, 33, (40,)), torch.randint(0, 30, (33, 7))

    def function(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> Any:
        added = torch.zeros_like(x).index_put((rows,), x[rows] * 2, accumulate=True)
        return (x[rows], x.gather(1, columns), added, x.scatter_add(1, columns, x[:, :7]),
                x.index_select(0, rows), x.masked_fill(x > 1, 0), torch.where(x > 0, x, x * 2),
                x.scatter_reduce(1, columns, x[:, :7], "sum"), x.roll(3, 1).tril())  # fmt: skip

    return function, [(R(33, 30).to(device).requires_grad_(), rows.to(device), columns.to(device))]


def shapes(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (torch.cat([x, y], 1), torch.stack([x, y], -1).flatten(1), F.pad(x, (2, 3), "reflect"),
            x.unfold(1, 5, 2).sum(-1), x.T.contiguous() @ y, x[:, None] * y[None],
            x.repeat_interleave(2, 0), torch.einsum("ij,kj->ik", x, y))  # fmt: skip


def sizes(device: torch.device) -> Any:
    """One compilation for many sizes."""
    calls = [(R(b, n, 48).to(device).requires_grad_(),) for b, n in ((3, 17), (5, 8), (2, 33))]
    return Attention().to(device), calls


def sizes_of_rows(device: torch.device) -> Any:
    def function(x: torch.Tensor) -> Any:
        return F.layer_norm(x, x.shape[-1:]).softmax(-1).sum(0), x.shape[0] * x.cumsum(-1)

    rows = (3, 17), (5, 800), (20, 3), (7, 7)
    return function, [(R(b, n).to(device).requires_grad_(),) for b, n in rows]


def autocast(device: torch.device) -> Any:
    module = Attention().to(device)

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            return module(x)

    return function, [(R(3, 17, 48).to(device).requires_grad_(),)]


def dropout(device: torch.device) -> None:
    """The backward pass drops what the forward pass dropped; the rate is the one asked for."""
    torch._dynamo.reset()
    x = torch.ones(3000, device=device, requires_grad=True)
    compiled = torch.compile(lambda x: F.dropout(x * 2, 0.25))
    first, second = compiled(x), compiled(x)
    first.sum().backward()
    assert torch.equal(first, x.grad), "the gradient has another mask"
    torch.testing.assert_close(first.unique().cpu(), torch.tensor([0, 2 / 0.75]))
    assert abs(first.ne(0).float().mean().item() - 0.75) < 0.05
    assert not torch.equal(first, second), "two calls drew the same numbers"
    normal = torch.compile(lambda x: (torch.randn_like(x), torch.rand_like(x)))(x)
    assert abs(normal[0].mean()) < 0.1 and abs(normal[0].std() - 1) < 0.1
    assert normal[1].min() >= 0 and normal[1].max() < 1 and abs(normal[1].mean() - 0.5) < 0.05
    torch.manual_seed(3)
    again = compiled(x)
    torch.manual_seed(3)
    assert torch.equal(again, compiled(x)), "a seed does not decide the numbers"


def optimizers(device: torch.device) -> None:
    """Compiled steps give the parameters of eager ones."""
    kinds: dict[Any, dict[str, Any]] = {
        torch.optim.AdamW: {"lr": 0.01, "weight_decay": 0.1},
        torch.optim.SGD: {"lr": 0.01, "momentum": 0.9, "nesterov": True},
        torch.optim.RMSprop: {"lr": 0.01}, torch.optim.Adagrad: {"lr": 0.01},
    }  # fmt: skip
    for kind, settings in kinds.items():
        torch._dynamo.reset()
        torch.manual_seed(0)
        eager = MLP().to(device)
        module = copy.deepcopy(eager)
        for made, compiled in ((eager, False), (module, True)):
            optimizer = kind(made.parameters(), foreach=True, **settings)
            step = torch.compile(optimizer.step) if compiled else optimizer.step
            for i in range(3):
                torch.manual_seed(i)
                made(R(17, 48).to(device)).square().sum().backward()
                step()
                optimizer.zero_grad()
        compare([*module.parameters()], [*eager.parameters()], 1e-4)


BF16 = torch.bfloat16
ORDERED = {"triton.mix_order_reduction": False}
"""torch (2.11 and 2.13) refuses some of its own mixtures of reductions of rows and columns."""
cases: Any = {
    "mlp": Case(one(MLP, (17, 48))),
    "attention": Case(one(Attention, (3, 17, 48))),
    "norms": Case(one(Norms, (5, 12, 100)), 5e-4),
    "language": Case(language),
    "softmax": Case(one(soft, (33, 777))),
    "scans": Case(one(scans, (9, 64)), 5e-4, ORDERED),
    # Not backward: torch 2.11 plans the graph for a GPU for minutes, whatever compiles the kernels.
    "scans_long": Case(one(scans, (33, 301), grad=False), 5e-4, ORDERED),
    "optimizers": optimizers,
    "dropout": dropout,
    "sizes": Case(sizes, how={"dynamic": True}),
    "gated_mlp": Case(one(GatedMLP, (17, 48))),
    "block": Case(one(Block, (3, 17, 48))),
    "block_bf16": Case(one(Block, (3, 17, 48), dtype=BF16), 6e-2),
    "mlp_fp16": Case(one(MLP, (17, 48), dtype=torch.float16), 1e-2),
    "mlp_f64": Case(one(MLP, (17, 48), dtype=torch.float64), 1e-10),
    "attention_bf16": Case(one(Attention, (3, 17, 48), dtype=BF16), 6e-2),
    "autocast": Case(autocast, 6e-2),
    "convolutions": Case(one(Convolutions, (2, 3, 17, 19)), 1e-3),
    "norms_bf16": Case(one(Norms, (5, 12, 100), dtype=BF16), 6e-2),
    "recurrent": Case(recurrent),
    "losses": Case(one(losses, (17, 100), (17, 100))),
    "softmax_long": Case(one(soft, (3, 40000)), options=ORDERED),
    "scans_bf16": Case(one(scans, (9, 64), dtype=BF16), 8e-2),
    "reductions": Case(one(reductions, (33, 301)), 1e-3, ORDERED),
    "reductions_long": Case(one(reductions, (5, 33000)), 1e-3, ORDERED),
    "long": Case(one(long, (300003,)), 1e-3),
    "long_scan": Case(one(long_scan, (300003,), grad=False), 1e-3),
    "choices": Case(one(choices, (33, 60))),
    "indexing": Case(indexing),
    "shapes": Case(one(shapes, (17, 30), (17, 30))),
    "sizes_of_rows": Case(sizes_of_rows, how={"dynamic": True}),
}

if __name__ == "__main__":
    main(cases)
