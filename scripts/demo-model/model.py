"""Qwen3.6's architecture in PyTorch, at the size of CFG, with the 4-bit quantisation that the checkpoint stores.

Shapes in comments: B sequences, T tokens, H heads, D head size, C tokens of a chunk, E experts.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = dict(
    vocab_size=4096,  # replaced by the tokenizer's, rounded up to a multiple of 64
    hidden_size=256,
    num_hidden_layers=8,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=64,
    linear_value_head_dim=64,
    linear_conv_kernel_dim=4,
    num_experts=16,
    num_experts_per_tok=4,
    moe_intermediate_size=64,
    shared_expert_intermediate_size=64,
    rms_norm_eps=1e-6,
    rope_theta=10000000.0,
    partial_rotary_factor=0.25,
    full_attention_interval=4,
)

GROUP = 64  # weights along the last axis that share a scale and a bias

# Whether the forward pass sees the weights as they will be stored. A list, so that every module sees it change.
QAT = [False]


def quantize(weight, bits):
    """Affine codes of the weight, [..., groups, GROUP], with scale and bias, [..., groups, 1], rounded to bf16."""
    groups = weight.float().reshape(*weight.shape[:-1], -1, GROUP)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    top = 2**bits - 1
    scale = ((high - low) / top).clamp_min(1e-7).bfloat16().float()
    bias = low.bfloat16().float()
    return ((groups - bias) / scale).round().clamp(0, top), scale, bias


def fake_quant(weight, bits):
    """The weight as quantised, with the gradient of the weight itself (straight-through)."""
    codes, scale, bias = quantize(weight.detach(), bits)
    return weight + (codes * scale + bias).reshape(weight.shape) - weight.detach()


class Lin(nn.Module):
    """A linear layer without bias, stored in 4 bits."""

    bits = 4

    def __init__(self, inputs, outputs, std=0.02):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * std)

    def stored(self):
        return fake_quant(self.weight, self.bits) if QAT[0] else self.weight

    def forward(self, x):
        return F.linear(x, self.stored().to(x.dtype))


class Lin8(Lin):
    """A linear layer stored in 8 bits: the router and the gate of the shared expert."""

    bits = 8


def rms(x, weight, eps):
    """RMS norm in fp32. The weight is the gain minus one."""
    x32 = x.float()
    return (x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + eps) * (1 + weight)).to(x.dtype)


class GDN(nn.Module):
    """Gated DeltaNet."""

    def __init__(self, cfg):
        super().__init__()
        hidden = cfg["hidden_size"]
        self.key_heads, self.value_heads = cfg["linear_num_key_heads"], cfg["linear_num_value_heads"]
        self.key_dim, self.value_dim = cfg["linear_key_head_dim"], cfg["linear_value_head_dim"]
        self.eps = cfg["rms_norm_eps"]
        self.keys, self.values = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        channels = 2 * self.keys + self.values
        self.in_proj_qkv, self.in_proj_z = Lin(hidden, channels), Lin(hidden, self.values)
        self.in_proj_b, self.in_proj_a = Lin(hidden, self.value_heads), Lin(hidden, self.value_heads)
        self.out_proj = Lin(self.values, hidden, 0.02 / 4)
        self.conv = nn.Parameter(torch.randn(channels, cfg["linear_conv_kernel_dim"]) * 0.3)
        self.dt_bias = nn.Parameter(torch.empty(self.value_heads).uniform_(-4.0, 0.0))
        self.A_log = nn.Parameter(torch.log(torch.empty(self.value_heads).uniform_(0.05, 4)))
        self.norm = nn.Parameter(torch.ones(self.value_dim))

    def forward(self, x):
        B, T, _ = x.shape
        # A causal convolution of each channel, then q, k and v, the first two with unit length.
        u = self.in_proj_qkv(x).float()
        taps = self.conv.shape[1]
        padded = F.pad(u, (0, 0, taps - 1, 0))
        u = F.silu(sum(padded[:, i : i + T] * self.conv[:, i] for i in range(taps)))
        q, k, v = u.split([self.keys, self.keys, self.values], -1)
        q, k = q.view(B, T, self.key_heads, self.key_dim), k.view(B, T, self.key_heads, self.key_dim)
        v = v.view(B, T, self.value_heads, self.value_dim)
        q = q * torch.rsqrt(q.pow(2).sum(-1, keepdim=True) + 1e-6) * self.key_dim**-0.5
        k = k * torch.rsqrt(k.pow(2).sum(-1, keepdim=True) + 1e-6)
        ratio = self.value_heads // self.key_heads
        q, k = q.repeat_interleave(ratio, 2), k.repeat_interleave(ratio, 2)

        beta = torch.sigmoid(self.in_proj_b(x).float())
        decay = -self.A_log.exp() * F.softplus(self.in_proj_a(x).float() + self.dt_bias)
        with torch.autocast("cuda", enabled=False):
            o = chunked(q, k, v, decay, beta)

        z = self.in_proj_z(x).view(B, T, self.value_heads, self.value_dim).float()
        o = o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + self.eps) * self.norm * F.silu(z)
        return self.out_proj(o.reshape(B, T, self.values).to(x.dtype))


def chunked(q, k, v, g, beta, C=64):
    """The gated delta rule in chunks of C tokens. q, k, v: [B, T, H, D]; g (log of the decay) and beta: [B, T, H]."""
    B, T, H, D = q.shape
    pad = (-T) % C
    q, k, v = (F.pad(t, (0, 0, 0, 0, 0, pad)) for t in (q, k, v))
    g, beta = (F.pad(t, (0, 0, 0, pad)) for t in (g, beta))
    N = (T + pad) // C
    q, k, v = (t.view(B, N, C, H, -1).permute(0, 3, 1, 2, 4) for t in (q, k, v))
    g, beta = (t.view(B, N, C, H).permute(0, 3, 1, 2) for t in (g, beta))

    # What the tokens of one chunk do to each other: a triangular system, solved for all chunks at once.
    G = g.cumsum(-1)
    kb, vb = k * beta[..., None], v * beta[..., None]
    lower = torch.ones(C, C, dtype=torch.bool, device=q.device).tril()
    between = (G[..., :, None] - G[..., None, :]).masked_fill(~lower, 0).exp()
    decay = torch.where(lower, between, 0.0)
    A = (kb @ k.transpose(-1, -2)) * decay
    right = torch.cat([vb, kb * G.exp()[..., None]], -1)
    solved = torch.linalg.solve_triangular(A, right, upper=False, unitriangular=True)
    U, W = solved.split([v.shape[-1], D], -1)
    within = (q @ k.transpose(-1, -2)) * decay

    # The state goes from chunk to chunk.
    q_in = q * G.exp()[..., None]
    k_out = k * (G[..., -1:] - G).exp()[..., None]
    chunk_decay = G[..., -1].exp()[..., None, None]
    S = torch.zeros(B, H, D, v.shape[-1], device=q.device)
    out = []
    for i in range(N):
        new_v = U[:, :, i] - W[:, :, i] @ S
        out.append(q_in[:, :, i] @ S + within[:, :, i] @ new_v)
        S = S * chunk_decay[:, :, i] + k_out[:, :, i].transpose(-1, -2) @ new_v
    o = torch.stack(out, 2)
    return o.permute(0, 2, 3, 1, 4).reshape(B, N * C, H, -1)[:, :T]


class Attn(nn.Module):
    """Attention with a sigmoid gate on its output, norms on q and k, and RoPE on the first part of each head."""

    def __init__(self, cfg):
        super().__init__()
        hidden = cfg["hidden_size"]
        self.heads, self.kv_heads, self.dim = cfg["num_attention_heads"], cfg["num_key_value_heads"], cfg["head_dim"]
        self.eps = cfg["rms_norm_eps"]
        self.q_proj = Lin(hidden, self.heads * self.dim * 2)  # query and gate of each head, one after the other
        self.k_proj, self.v_proj = Lin(hidden, self.kv_heads * self.dim), Lin(hidden, self.kv_heads * self.dim)
        self.o_proj = Lin(self.heads * self.dim, hidden, 0.02 / 4)
        self.q_norm, self.k_norm = nn.Parameter(torch.zeros(self.dim)), nn.Parameter(torch.zeros(self.dim))
        self.rotary = int(self.dim * cfg["partial_rotary_factor"])
        self.theta = cfg["rope_theta"]

    def rope(self, x, T):
        half = self.rotary // 2
        exponents = -torch.arange(half, device=x.device).float() / half
        angles = torch.arange(T, device=x.device)[:, None].float() * self.theta**exponents
        cos, sin = angles.cos()[None, :, None], angles.sin()[None, :, None]
        a, b, rest = x[..., :half].float(), x[..., half : self.rotary].float(), x[..., self.rotary :]
        return torch.cat([(a * cos - b * sin).to(x.dtype), (b * cos + a * sin).to(x.dtype), rest], -1)

    def forward(self, x):
        B, T, _ = x.shape
        q, gate = self.q_proj(x).view(B, T, self.heads, 2 * self.dim).chunk(2, -1)
        q = rms(q, self.q_norm, self.eps)
        k = rms(self.k_proj(x).view(B, T, self.kv_heads, self.dim), self.k_norm, self.eps)
        v = self.v_proj(x).view(B, T, self.kv_heads, self.dim)
        q, k = self.rope(q, T), self.rope(k, T)
        ratio = self.heads // self.kv_heads
        k, v = k.repeat_interleave(ratio, 2), v.repeat_interleave(ratio, 2)
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.o_proj(o.transpose(1, 2).reshape(B, T, -1) * torch.sigmoid(gate.reshape(B, T, -1)))


class MoE(nn.Module):
    """Routed experts and a shared one. Every expert computes every token here and the unchosen ones weigh zero: at
    this size that is faster than grouping. After a pass, aux holds the load-balancing loss."""

    def __init__(self, cfg):
        super().__init__()
        hidden, self.experts = cfg["hidden_size"], cfg["num_experts"]
        self.chosen, self.width = cfg["num_experts_per_tok"], cfg["moe_intermediate_size"]
        shared = cfg["shared_expert_intermediate_size"]
        self.gate = Lin8(hidden, self.experts)
        self.shared_expert_gate = Lin8(hidden, 1)
        self.gate_up = nn.Parameter(torch.randn(self.experts, 2 * self.width, hidden) * 0.02)
        self.down = nn.Parameter(torch.randn(self.experts, hidden, self.width) * 0.02 / 4)
        self.shared_gate, self.shared_up = Lin(hidden, shared), Lin(hidden, shared)
        self.shared_down = Lin(shared, hidden, 0.02 / 4)

    def forward(self, x):
        B, T, hidden = x.shape
        x = x.reshape(B * T, hidden)
        gate_up, down = self.gate_up, self.down
        if QAT[0]:
            gate_up, down = fake_quant(gate_up, 4), fake_quant(down, 4)
        p = F.softmax(self.gate(x).float(), -1)
        values, indices = p.topk(self.chosen, -1)
        w = torch.zeros_like(p).scatter(1, indices, values / values.sum(-1, keepdim=True))
        self.aux = self.experts * ((w > 0).float().mean(0) / self.chosen * p.mean(0)).sum()
        y = F.linear(x, gate_up.reshape(-1, hidden).to(x.dtype)).view(-1, self.experts, 2 * self.width)
        act = F.silu(y[..., : self.width]) * y[..., self.width :] * w.to(x.dtype)[..., None]
        out = act.reshape(-1, self.experts * self.width) @ down.permute(0, 2, 1).reshape(-1, hidden).to(x.dtype)
        shared = self.shared_down(F.silu(self.shared_gate(x)) * self.shared_up(x))
        return (out + torch.sigmoid(self.shared_expert_gate(x)) * shared).view(B, T, hidden)


class Block(nn.Module):
    """One layer: attention in every full_attention_interval-th, GDN in the others, then the experts."""

    def __init__(self, cfg, i):
        super().__init__()
        self.full = (i + 1) % cfg["full_attention_interval"] == 0
        self.eps = cfg["rms_norm_eps"]
        self.mix = Attn(cfg) if self.full else GDN(cfg)
        self.mlp = MoE(cfg)
        self.norm1 = nn.Parameter(torch.zeros(cfg["hidden_size"]))
        self.norm2 = nn.Parameter(torch.zeros(cfg["hidden_size"]))

    def forward(self, x):
        x = x + self.mix(rms(x, self.norm1, self.eps))
        return x + self.mlp(rms(x, self.norm2, self.eps))


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Parameter(torch.randn(cfg["vocab_size"], cfg["hidden_size"]) * 0.02)
        self.layers = nn.ModuleList(Block(cfg, i) for i in range(cfg["num_hidden_layers"]))
        self.norm = nn.Parameter(torch.zeros(cfg["hidden_size"]))
        self.head = Lin(cfg["hidden_size"], cfg["vocab_size"])

    def forward(self, ids, last=None):
        """Logits of every position of ids [B, T], or only of position last[i] of sequence i: [B, 1, vocabulary]."""
        table = fake_quant(self.embed, 4) if QAT[0] else self.embed
        x = F.embedding(ids, table).to(torch.bfloat16)
        for layer in self.layers:
            x = layer(x)
        if last is not None:
            x = x[torch.arange(len(x), device=x.device), last][:, None]
        return self.head(rms(x, self.norm, self.cfg["rms_norm_eps"]))

    def export(self):
        """The weights as numpy arrays under MLX's names: codes (name.q4 or .q8), scales and biases, plain fp32 for
        the rest. export.py packs them."""
        out = {}

        def put(name, parameter):
            out[name] = parameter.detach().cpu().numpy()

        def put_quantized(name, weight, bits=4):
            codes, scale, bias = quantize(weight.detach(), bits)
            out["%s.q%d" % (name, bits)] = codes.reshape(weight.shape).to(torch.uint8).cpu().numpy()
            out[name + ".scales"] = scale.squeeze(-1).cpu().numpy().astype("float32")
            out[name + ".biases"] = bias.squeeze(-1).cpu().numpy().astype("float32")

        put_quantized("embed_tokens", self.embed)
        put_quantized("lm_head", self.head.weight)
        put("norm", self.norm)
        for i, layer in enumerate(self.layers):
            prefix = "layers.%d." % i
            put(prefix + "input_layernorm", layer.norm1)
            put(prefix + "post_attention_layernorm", layer.norm2)
            mix, mlp = layer.mix, layer.mlp
            if layer.full:
                for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
                    put_quantized(prefix + "self_attn." + name, getattr(mix, name).weight)
                put(prefix + "self_attn.q_norm", mix.q_norm)
                put(prefix + "self_attn.k_norm", mix.k_norm)
            else:
                for name in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"):
                    put_quantized(prefix + "linear_attn." + name, getattr(mix, name).weight)
                put(prefix + "linear_attn.conv1d", mix.conv)
                for name in ("dt_bias", "A_log", "norm"):
                    put(prefix + "linear_attn." + name, getattr(mix, name))
            prefix += "mlp."
            put_quantized(prefix + "gate", mlp.gate.weight, 8)
            put_quantized(prefix + "shared_expert_gate", mlp.shared_expert_gate.weight, 8)
            put_quantized(prefix + "switch_mlp.gate_proj", mlp.gate_up[:, : mlp.width])
            put_quantized(prefix + "switch_mlp.up_proj", mlp.gate_up[:, mlp.width :])
            put_quantized(prefix + "switch_mlp.down_proj", mlp.down)
            put_quantized(prefix + "shared_expert.gate_proj", mlp.shared_gate.weight)
            put_quantized(prefix + "shared_expert.up_proj", mlp.shared_up.weight)
            put_quantized(prefix + "shared_expert.down_proj", mlp.shared_down.weight)
        return out
