"""Checks that export.py still makes the checkpoint beside it, byte for byte, and world.py the same conversations.

train.py's output is too large to keep, but export.py loses nothing of it that matters: this script takes the checkpoint
apart into what train.py must have written, exports that, and compares. On the way it looks at every shape.

Usage: python3 -B check.py (needs numpy)
"""

import filecmp
import hashlib
import json
import os
import random
import shutil
import struct
import sys
import tempfile

import numpy as np

import export
import world

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKPOINT = os.path.join(HERE, "checkpoint")
FILES = (
    "chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
    "tokenizer_config.json",
)

# SHA-256 of the JSON of world.py's conversations for the seeds 0 to 1999.
WORLD = "762fa7b8b653713fb1994e22e3545e96b3e5b76047a55f7afa1fac407c40aed4"


def world_digest():
    digest = hashlib.sha256()
    for seed in range(2000):
        digest.update(json.dumps(world.conversation(random.Random(seed))).encode())
    return digest.hexdigest()


def read_safetensors(path):
    """{name: array}, bf16 as uint16; every byte of the file must belong to a tensor."""
    with open(path, "rb") as f:
        data = f.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    body, end, out = data[8 + length :], 0, {}
    for name, entry in header.items():
        begin, stop = entry["data_offsets"]
        assert begin == end, "%s begins at %d, want %d" % (name, begin, end)
        dtype = {"U32": np.uint32, "BF16": np.uint16, "F32": np.float32}[entry["dtype"]]
        out[name] = np.frombuffer(body[begin:stop], dtype).reshape(entry["shape"])
        end = stop
    assert end == len(body), "tensors end at byte %d of %d" % (end, len(body))
    return out


def floats(bits):
    """bf16 bits as fp32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def unpack(words, bits):
    """The codes in words, lowest bits first."""
    shifts = np.arange(32 // bits, dtype=np.uint32) * bits
    codes = (words[..., None] >> shifts) & (2**bits - 1)
    return codes.reshape(*words.shape[:-1], -1).astype(np.uint8)


def expected_shapes(c):
    """{module: shape of its unpacked weight} of train.py's config c."""
    hidden, vocab, experts = c["hidden_size"], c["vocab_size"], c["num_experts"]
    heads, kv_heads, dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    values = c["linear_num_value_heads"] * c["linear_value_head_dim"]
    channels = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"] + values
    width, shared = c["moe_intermediate_size"], c["shared_expert_intermediate_size"]
    shapes = {"embed_tokens": (vocab, hidden), "lm_head": (vocab, hidden), "norm": (hidden,)}
    attention = {
        "q_proj": (2 * heads * dim, hidden), "k_proj": (kv_heads * dim, hidden), "v_proj": (kv_heads * dim, hidden),
        "o_proj": (hidden, heads * dim), "q_norm": (dim,), "k_norm": (dim,),
    }
    linear = {
        "in_proj_qkv": (channels, hidden), "in_proj_z": (values, hidden), "out_proj": (hidden, values),
        "in_proj_b": (c["linear_num_value_heads"], hidden), "in_proj_a": (c["linear_num_value_heads"], hidden),
        "conv1d": (channels, c["linear_conv_kernel_dim"], 1), "norm": (c["linear_value_head_dim"],),
        "dt_bias": (c["linear_num_value_heads"],), "A_log": (c["linear_num_value_heads"],),
    }
    mlp = {
        "gate": (experts, hidden), "shared_expert_gate": (1, hidden),
        "switch_mlp.gate_proj": (experts, width, hidden), "switch_mlp.up_proj": (experts, width, hidden),
        "switch_mlp.down_proj": (experts, hidden, width), "shared_expert.gate_proj": (shared, hidden),
        "shared_expert.up_proj": (shared, hidden), "shared_expert.down_proj": (hidden, shared),
    }
    for i in range(c["num_hidden_layers"]):
        layer = "layers.%d." % i
        full = (i + 1) % c["full_attention_interval"] == 0
        shapes[layer + "input_layernorm"] = shapes[layer + "post_attention_layernorm"] = (hidden,)
        for name, shape in (attention if full else linear).items():
            shapes[layer + ("self_attn." if full else "linear_attn.") + name] = shape
        for name, shape in mlp.items():
            shapes[layer + "mlp." + name] = shape
    return shapes


def take_apart(tensors, shapes):
    """train.py's arrays of the checkpoint's tensors. Fails on a missing tensor, an unknown one, or a wrong shape."""
    weights, left = {}, dict(tensors)
    for name, shape in shapes.items():
        full = export.full_name(name)
        stored = left.pop(full + ".weight", None)
        if stored is None:
            stored = left.pop(full)  # A_log and dt_bias
        if full + ".scales" in left:
            bits = 8 if name.endswith("mlp.gate") or name.endswith("shared_expert_gate") else 4
            value = weights["%s.q%d" % (name, bits)] = unpack(stored, bits)
            for part in (".scales", ".biases"):
                weights[name + part] = floats(left.pop(full + part))
                assert weights[name + part].shape == shape[:-1] + (shape[-1] // 64,), name + part
        elif stored.dtype == np.float32:
            value = weights[name] = stored
        else:
            value = floats(stored)
            gain_minus_one = not name.endswith(("conv1d", "dt_bias", "linear_attn.norm"))
            weights[name] = value - 1 if gain_minus_one else value[:, :, 0] if value.ndim == 3 else value
        assert value.shape == shape, "%s has shape %s, want %s" % (name, value.shape, shape)
    assert not left, "unknown tensors: %s" % ", ".join(left)
    return weights


def main():
    halfway = np.float32([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-9])  # between two bf16 values: to the even one
    assert list(export.bf16(halfway)) == [0x3F80, 0x3F82, 0xBF80], "bf16 does not round to nearest even"
    assert world_digest() == WORLD, "world.py draws other conversations than those of the training"
    with open(os.path.join(CHECKPOINT, "config.json")) as f:
        text = json.load(f)["text_config"]
    trained = {key: text[key] for key in export.KEPT}
    trained["rope_theta"] = text["rope_parameters"]["rope_theta"]
    tensors = read_safetensors(os.path.join(CHECKPOINT, "model.safetensors"))
    weights = take_apart(tensors, expected_shapes(trained))

    different = []
    with tempfile.TemporaryDirectory() as scratch:
        np.savez(os.path.join(scratch, "weights.npz"), **weights)
        with open(os.path.join(scratch, "config.json"), "w") as f:
            json.dump(trained, f)
        shutil.copy(os.path.join(CHECKPOINT, "tokenizer.json"), scratch)
        made = os.path.join(scratch, "made")
        export.export(scratch, os.path.join(CHECKPOINT, "chat_template.jinja"), made)
        _, different, missing = filecmp.cmpfiles(CHECKPOINT, made, FILES, shallow=False)
    if sorted(os.listdir(CHECKPOINT)) != sorted(FILES) or different or missing:
        sys.exit("export.py makes another checkpoint: different %s, missing %s" % (different, missing))
    parameters = sum(w.size for name, w in weights.items() if not name.endswith((".scales", ".biases")))
    print("the checkpoint's %d files are what export.py makes; %d parameters" % (len(FILES), parameters))


if __name__ == "__main__":
    main()
