#!/usr/bin/env python3
"""Writes qwen35.json, qwen2.json, decode.json and classes.json: what Hugging Face's library makes of random texts and ids,
and how it classifies every code point.

    pip install tokenizers==0.23.2
    python3 make_cases.py ../../../scripts/demo-model/checkpoint/tokenizer.json

qwen2.json is the same vocabulary under qwen2's regular expression (no combining marks in letter runs).
Code points that the library's NFC (an older Unicode than its regular expressions') and ours treat differently are left
out; see NFC_DIFFERS.
"""
import json
import random
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer
from tokenizers.pre_tokenizers import Split

HERE = Path(__file__).parent
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
SEED = 20260901

WORDS = ("the quick brown fox jumps over a lazy dog and then counts one two three Hello World don't I'M you'RE we'Ve "
         "she'LL they'd it's it'ſ café naïve Zürich 東京 한국어 مرحبا हिन्दी ไทย Ελλάδα Привет <think> </think> <|im_start|>").split()
TRICKY = ["'", "'s", "'S", "'ſ", "ſ", "K", "'ll", "'lL", "'re", "'m", " ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n",
          "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\v", "\f", "\x1c", "\x1f",
          "\u180e", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u034f", "\u0301", "\u0323", "\u0308", "\u0327", "\u20dd",
          "\u093c", "\u0915", "\u0651", "\u064e", "\u05b4", "\u3099", "\u304b", "\u1100", "\u1161", "\u11a8", "\uac00", "\u0344",
          "\u0958", "\ufb1d", "\u2126", "\u212b", "\u0340", "e", "o", "A", "z", "0", "9", "\u0663", "\u0966", "\u2167", "\u00bd",
          "\u00b2", "\u2460", "\u4e00", "\u3042", "!", "?", "...", "-", "_", "@", "#", "\u20ac", "\u2026", "\U0001f600",
          "\U0001f468\u200d\U0001f469", "\U0001f1f3", "\U0001d400", "\U00010400", "\U00020000", "\U0002f800", "\U0001d15e",
          "\U0001e900", "\U00010a01", "\U0002ebf0", "\U000105c0", "\U00010d40", "\u0897", "\ue000", "\U000f0000", "\u0378",
          "\ufffd", "\uffff", "<think>", "</think>", "<|im_end|>", "<|im_", "<tool_call>", "<"]
# Combining marks of Unicode 10 to 15: the library's NFC is of Unicode 9 and takes them for starters, x/text's is of 15.
NFC_DIFFERS = [
    (0x7FD, 0x7FD), (0x898, 0x89F), (0x8CA, 0x8D3), (0x9FE, 0x9FE), (0xC3C, 0xC3C), (0xD3B, 0xD3C), (0xEBA, 0xEBA),
    (0x1715, 0x1715), (0x1ABF, 0x1ACE), (0x1DF6, 0x1DFA), (0xA82C, 0xA82C), (0x10D24, 0x10D27), (0x10EAB, 0x10EAC),
    (0x10EFD, 0x10EFF), (0x10F46, 0x10F50), (0x10F82, 0x10F85), (0x11070, 0x11070), (0x1133B, 0x1133B),
    (0x1145E, 0x1145E), (0x11839, 0x1183A), (0x1193D, 0x1193E), (0x11943, 0x11943), (0x119E0, 0x119E0),
    (0x11A34, 0x11A34), (0x11A47, 0x11A47), (0x11A99, 0x11A99), (0x11D42, 0x11D42), (0x11D44, 0x11D45),
    (0x11D97, 0x11D97), (0x11F41, 0x11F42), (0x16FF0, 0x16FF1), (0x1E08F, 0x1E08F), (0x1E130, 0x1E136),
    (0x1E2AE, 0x1E2AE), (0x1E2EC, 0x1E2EF), (0x1E4EC, 0x1E4EF),
]


def texts(rng):
    yield ""
    for _ in range(120):
        yield "".join(rng.choice(TRICKY) for _ in range(rng.randint(1, 24)))
    for _ in range(60):
        yield rng.choice([" ", "", "\n"]).join(rng.choice(WORDS) for _ in range(rng.randint(2, 14)))
    for _ in range(60):
        yield "".join(rng.choice(rng.choice([WORDS, TRICKY, TRICKY, [" "]])) for _ in range(rng.randint(4, 30)))
    for _ in range(80):
        yield "".join(random_char(rng) for _ in range(rng.randint(1, 20)))
    # long runs of what combines with the character before: no grapheme joiner is put in
    for mark in ("\u0301", "\u0323\u0301", "\u0301\u0323\u0327", "\u1161", "\u11ab", "\u09be", "\u0f73\u0f71"):
        for n in (12, 29, 30, 31, 90):
            yield "a" + mark * n + "b"
    for n in (47, 48, 49, 200):  # around the length where the merge loop changes
        yield "".join(rng.choice("etaoins") for _ in range(n))


def random_char(rng):
    while True:
        c = chr(rng.choice([rng.randrange(0x250), rng.randrange(0x3100), rng.randrange(0x20000), rng.randrange(0x110000)]))
        if not 0xD800 <= ord(c) <= 0xDFFF and not any(a <= ord(c) <= b for a, b in NFC_DIFFERS):
            return c


def case(tok, regex, text):
    ids = tok.encode(text, add_special_tokens=False).ids
    pieces = Split(Regex(regex), "isolated").pre_tokenize_str(text)  # of the text as it is: no NFC, no added tokens
    return {"text": text, "ids": ids, "decoded": tok.decode(ids, skip_special_tokens=False), "pieces": [p for p, _ in pieces]}


def members(regex):
    """The code points that regex matches, as [first, last] ranges."""
    split = Split(Regex(regex), "removed")
    found = []
    for start in range(0, 0x110000, 0x1000):
        chunk = "".join(chr(c) for c in range(start, start + 0x1000) if not 0xD800 <= c <= 0xDFFF)
        rest = {ord(c) for piece, _ in split.pre_tokenize_str(chunk) for c in piece}
        found += [ord(c) for c in chunk if ord(c) not in rest]
    ranges = []
    for c in found:
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    return ranges


def write(name, cases):
    (HERE / name).write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


def main():
    source = json.loads(Path(sys.argv[1]).read_text())
    qwen35 = Tokenizer.from_str(json.dumps(source))
    pattern = source["pre_tokenizer"]["pretokenizers"][0]["pattern"]
    qwen35_regex, pattern["Regex"] = pattern["Regex"], QWEN2
    qwen2 = Tokenizer.from_str(json.dumps(source))
    cases = list(texts(random.Random(SEED)))
    write("qwen35.json", [case(qwen35, qwen35_regex, t) for t in cases])
    write("qwen2.json", [case(qwen2, QWEN2, t) for t in cases])
    rng = random.Random(SEED)
    size = qwen35.get_vocab_size()
    decode = []
    for _ in range(150):  # ids below 256 are single bytes: nearly all sequences are broken UTF-8
        ids = [rng.randrange(128, 256) if rng.random() < 0.8 else rng.randrange(size) for _ in range(rng.randint(1, 12))]
        decode.append({"ids": ids, "decoded": qwen35.decode(ids, skip_special_tokens=False)})
    write("decode.json", decode)
    classes = {name: members(regex) for name, regex in (("L", r"\p{L}"), ("M", r"\p{M}"), ("N", r"\p{N}"), ("s", r"\s"))}
    (HERE / "classes.json").write_text(json.dumps(classes) + "\n")


if __name__ == "__main__":
    main()
