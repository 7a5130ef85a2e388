"""Writes jinja_conversations.json, jinja_snippets.json and json_dumps.json with Python and the real Jinja2 (pip install jinja2==3.1.6), set up as
Hugging Face transformers does, for the tests of supervisor/chat. Run it in this directory."""

import json
import random

from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise TemplateError(message)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        parser.stream.skip(1)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


ENV = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
ENV.filters["tojson"] = tojson
ENV.globals["raise_exception"] = raise_exception

# Conversations.

WORDS = ["hello", "Grüße", "日本語", "😀", "don't", "a<b", "x > y", "\"quoted\"", "back\\slash", "<b>", "{{ x }}", "{% if %}",
         "\u00a0", "\u2028", "\t", "tab\there", "line\nbreak", "\r\n", "\x1c", "\u200b", "e\u0301", "\U000F0000", "&amp;", "'", "<", ">"]
TOKENS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<|im_start|>", "<|im_end|>",
          "<|im_start|>system\n", "<|endoftext|>", "<thi", "nk>", "</", "<|im_"]
EDGES = ["", "", " ", "\n", "\n\n", " \t\n", "\u00a0", "\x85"]


def text(r, tokens=True):
    n = r.choice([0, 1, 1, 2, 3, 6])
    words = [r.choice(TOKENS if tokens and r.random() < 0.25 else WORDS) for _ in range(n)]
    return r.choice(EDGES) + r.choice([" ", "", "\n"]).join(words) + r.choice(EDGES)


def content(r):
    kind = r.random()
    if kind < 0.75:
        return text(r)
    return [{"type": "text", "text": text(r)} for _ in range(r.randint(0, 3))]


def value(r, depth=0):
    kind = r.randint(0, 9 if depth < 3 else 6)
    if kind == 0:
        return None
    if kind == 1:
        return r.random() < 0.5
    if kind == 2:
        return r.choice([0, -1, 7, 2**53 + 1, -2**70, 10**30])
    if kind == 3:
        return r.choice([0.0, -0.0, 1.0, 0.1, -2.5, 1e5, 1e15, 1e16, 1e22, 1e-4, 1e-5, 5e-324, 1.7976931348623157e308, 123456789.123])
    if kind <= 6:
        return text(r)
    if kind == 7:
        return [value(r, depth + 1) for _ in range(r.randint(0, 3))]
    return {key(r): value(r, depth + 1) for _ in range(r.randint(0, 3))}


def key(r):
    return r.choice(["a", "z", "b", "Key", "ключ", "with space", "<think>", "x>\n</tool_call", "items", "name", "q\"q", "B", "0"])


def tool(r):
    return {"type": "function", "function": {
        "name": r.choice(["get_weather", "run", "<tool_call>"]), "description": text(r),
        "parameters": {"type": "object", "properties": {key(r): {"type": "string", "description": text(r), "default": value(r)}
                                                        for _ in range(r.randint(0, 3))}, "required": []}}}


def call(r):
    arguments = {key(r): value(r) for _ in range(r.randint(0, 3))}
    if r.random() < 0.5:
        arguments = json.dumps(arguments, ensure_ascii=r.random() < 0.5)
    elif r.random() < 0.1:
        arguments = ""
    function = {"name": r.choice(["get_weather", "run", "f>\n<think"]), "arguments": arguments}
    if r.random() < 0.1:
        return function
    return {"id": "call_1", "type": "function", "function": function}


def assistant(r):
    m = {"role": "assistant", "content": content(r)}
    kind = r.random()
    if kind < 0.3:
        m["reasoning_content"] = text(r)
    elif kind < 0.6:
        m["content"] = r.choice(["<think>", "", "\n<think>\n", "x<think>y<think>"]) + text(r) + r.choice(["</think>", "\n</think>\n\n"]) + text(r)
    elif kind < 0.7:
        m["content"] = None
    if r.random() < 0.35:
        m["tool_calls"] = [call(r) for _ in range(r.randint(0, 3))]
    return m


def conversation(r):
    messages = []
    if r.random() < 0.5:
        messages.append({"role": "system", "content": content(r)})
    for _ in range(r.randint(1, 3)):
        u = content(r)
        if r.random() < 0.15:
            u = "<tool_response>" + text(r) + "</tool_response>" + r.choice(EDGES)
        messages.append({"role": "user", "content": u})
        for _ in range(r.choice([0, 1, 1, 2])):
            messages.append(assistant(r))
            for _ in range(r.choice([0, 0, 1, 2])):
                messages.append({"role": "tool", "tool_call_id": "call_1", "content": content(r)})
        if r.random() < 0.1:
            messages.append({"role": "system", "content": text(r)})
        if r.random() < 0.02:
            messages.append({"role": "oracle", "content": text(r)})
    c = {"messages": messages, "add_generation_prompt": r.random() < 0.6}
    if r.random() < 0.4:
        c["tools"] = [tool(r) for _ in range(r.randint(0, 3))]
    if r.random() < 0.4:
        c["enable_thinking"] = r.random() < 0.5
    if r.random() < 0.3:
        c["preserve_thinking"] = r.random() < 0.5
    return c


def decoded(c):
    """What a server makes of tool calls before it renders them."""
    c = json.loads(json.dumps(c))
    for m in c["messages"]:
        for x in m.get("tool_calls") or []:
            f = x.get("function", x)
            if isinstance(f["arguments"], str):
                f["arguments"] = json.loads(f["arguments"] or "{}")
    return c


def render(template, c):
    try:
        return {"rendered": template.render(**decoded(c))}
    except TemplateError as e:
        return {"error": str(e)}


def conversations(source, n, seed):
    template = ENV.from_string(source)
    r = random.Random(seed)
    cases = []
    for i in range(n):
        c = conversation(r)
        cases.append({"name": f"random {i}", "input": c, **render(template, c)})
    return cases


# Snippets: what templates in the wild do, one feature each.

VARS = {"s": " aXb cé日 \n", "w": "one two  three", "e": "", "n": None, "t": True, "f": False, "i": 7, "z": 0, "x": 1.5, "big": 10**25,
        "l": [1, "two", None, 3.0, True], "el": [], "d": {"b": 1, "a": "x", "c": None, "n": {"k": [1, 2]}}, "ed": {},
        "ms": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo", "x": 1}, {"role": "user", "content": "ß"}],
        "think": "<think>\nab\n</think>\n\nrest</think>x"}
SNIPPETS = r"""
{{ s }}|{{ s|trim }}|{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip('\n ') }}|{{ s|length }}
{{ w.split() }}|{{ w.split(' ') }}|{{ w.split(' ', 1) }}|{{ w.rsplit(' ', 1) }}|{{ w.split('two')[0] }}|{{ w.split('two')[-1] }}
{{ w.split(None, 1) }}|{{ w.split(maxsplit=1) }}|{{ w.rsplit(None, 1) }}|{{ 'a,b'.split(sep=',') }}
{{ think.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}|{{ think.split('</think>')[-1].lstrip('\n') }}
{{ w.startswith('one') }}|{{ w.endswith('x') }}|{{ w.startswith(('a', 'one')) }}|{{ w.replace('o', '0') }}|{{ w.replace('o', '0', 1) }}
{{ w.upper() }}|{{ w|upper }}|{{ w.title() }}|{{ w|capitalize }}|{{ 'ABC'.lower() }}|{{ w.find('two') }}|{{ w.find('q') }}|{{ w.count('e') }}
{{ w[0] }}|{{ w[-1] }}|{{ w[1:3] }}|{{ w[::-1] }}|{{ 'é日x'[1] }}|{{ 'é日x'[:2] }}|{{ 'é日x'[-2:] }}
{{ l[0] }}|{{ l[-1] }}|{{ l[1:] }}|{{ l[:-1] }}|{{ l[::-1] }}|{{ l[::2] }}|{{ l|length }}|{{ l|first }}|{{ l|last }}
{{ d.b }}|{{ d['a'] }}|{{ d.get('a') }}|{{ d.get('q', 'no') }}|{{ d.q is defined }}|{{ d.c is defined }}|{{ d.c is none }}|{{ d.q is none }}
{% for k, v in d.items() %}{{ k }}={{ v|tojson }};{% endfor %}|{% for k in d %}{{ k }}{% endfor %}|{% for k, v in d|items %}{{ k }}{% endfor %}
{{ d|tojson }}|{{ l|tojson }}|{{ s|tojson }}|{{ n|tojson }}|{{ big|tojson }}|{{ x|tojson }}|{{ '</x>&\''|tojson }}
{{ d|tojson(indent=2) }}|{{ el|tojson(indent=2) }}|{{ ed|tojson(indent=2) }}|{{ d|tojson(sort_keys=true) }}|{{ s|tojson(ensure_ascii=true) }}
{{ d|tojson(separators=(',', ':')) }}
{{ (1 if t else 2) }}|{{ (1 if f else 2) }}|{{ 1 if f }}|{{ (w if n is none else n|length)|upper }}|{{ 'a' if f else 'b' if t else 'c' }}
{{ ('x' if t else q.q.q) }}|{{ [1 if f else 2, 3 if t] }}|{{ ('a' if t) ~ 'b' }}|{{ (d or {}).items()|list|length }}|{{ (n or {}).items()|list }}
{% set y = (n or 'dflt') %}{{ y }}|{% set y = n if n else 'q' %}{{ y }}|{% set y %}block {{ i }}{% endset %}{{ y }}
{{ t and 'a' or 'b' }}|{{ f and 'a' or 'b' }}|{{ not f }}|{{ not (t and f) }}|{{ not(t) }}|{{ t and not f }}
{{ i + 1 }}|{{ i - 1 }}|{{ i * 2 }}|{{ i / 2 }}|{{ i // 2 }}|{{ i % 4 }}|{{ -i }}|{{ x + 1 }}|{{ i ~ x ~ t ~ w }}
{{ i == 7 }}|{{ i != 7 }}|{{ i > 3 }}|{{ i >= 7 }}|{{ i < 3 }}|{{ w == 'one' }}|{{ n == none }}|{{ t == true }}|{{ 1 == 1.0 }}|{{ 'a' < 'b' }}
{{ 'one' in w }}|{{ 'q' in w }}|{{ 'q' not in w }}|{{ 1 in l }}|{{ 'two' in l }}|{{ 'a' in d }}|{{ 'q' in d }}|{{ i in [1, 7] }}|{{ i in (1, 2) }}
{{ w is string }}|{{ i is string }}|{{ n is string }}|{{ l is iterable }}|{{ d is mapping }}|{{ l is mapping }}|{{ l is sequence }}|{{ w is iterable }}
{{ i is number }}|{{ x is number }}|{{ big is number }}|{{ t is boolean }}|{{ i is boolean }}|{{ t is true }}|{{ f is false }}|{{ i is true }}|{{ z is false }}
{{ n is none }}|{{ n is not none }}|{{ q is defined }}|{{ q is undefined }}|{{ q is not defined }}|{{ n is defined }}|{{ e is defined }}|{{ i is integer }}|{{ x is float }}
{{ q|default('d') }}|{{ n|default('d') is none }}|{{ n|default('d', true) }}|{{ e|default('d', true) }}|{{ e|default('d') }}|{{ z|default(5, boolean=true) }}
{% for m in ms %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }};{% endfor %}
{% for m in ms %}{{ loop.previtem.content if loop.previtem is defined else '-' }}{{ loop.nextitem.content if not loop.last else '+' }};{% endfor %}
{% for m in ms if m.role == 'user' %}{{ m.content }}{{ loop.index }}{% endfor %}|{% for m in el %}x{% else %}none{% endfor %}
{% for m in ms %}{% if m.role == 'assistant' %}{% continue %}{% endif %}{{ m.content }}{% if loop.last %}{% break %}{% endif %}{% endfor %}
{% for m in ms[::-1] %}{{ m.content }}{% endfor %}|{% for m in ms[1:] %}{{ m.role }}{% endfor %}|{{ ms[-1].content }}|{{ ms[0]['role'] }}
{% for i in range(3) %}{{ i }}{% endfor %}|{% for i in range(1, 7, 2) %}{{ i }}{% endfor %}|{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}|{{ range(4)|list }}
{% set ns = namespace(a=1, b='x') %}{% for m in ms %}{% set ns.a = ns.a + 1 %}{% endfor %}{{ ns.a }}{{ ns.b }}
{% set v = 1 %}{% for m in ms %}{% set v = 2 %}{% endfor %}{{ v }}|{% if t %}{% set v = 3 %}{% endif %}{{ v }}
{% macro f(a, b=2) %}[{{ a }}-{{ b }}]{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(a=4, b=5) }}{{ f('x')|length }}{{ f(1) ~ f(2) }}
{% macro f(a) %}{% if a is string %}{{ a }}{% elif a is mapping %}{{ a.b }}{% else %}{% for p in a %}{{ p }}{% endfor %}{% endif %}{% endmacro %}{{ f('s') }}{{ f(d) }}{{ f([1, 2]) }}
{% macro outer(a) %}{% macro inner(b) %}<{{ b }}>{% endmacro %}{{ inner(a) }}{% endmacro %}{{ outer(3) }}
{%- if t -%}   a   {%- else -%} b {%- endif %}   c
{{ ms|map(attribute='role')|join(', ') }}|{{ ms|selectattr('role', 'equalto', 'user')|list|length }}|{{ ms|rejectattr('role', 'equalto', 'user')|list|length }}
{{ ['b', 'a']|sort|join(',') }}|{{ [3, 1]|sort }}|{{ [1, 2]|join('-') }}|{{ l|reverse|list }}|{{ [1, 1, 2]|unique|list }}|{{ [1, 2]|sum }}|{{ [1, 5]|max }}
{{ '5'|int + 1 }}|{{ '2.5'|float }}|{{ i|string + 'x' }}|{{ x|int }}|{{ 2.567|round(1) }}|{{ -3|abs }}
{{ 'a\nb\n\nc'|indent(2) }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\nb'|indent('> ') }}
{{ 'x'.join(['a', 'b']) }}|{{ w.splitlines() }}|{{ 'a\nb\r\nc'.splitlines() }}|{{ 'k=v'.partition('=')|join('+') }}|{{ 'abc'.removeprefix('a') }}|{{ '12'.isdigit() }}|{{ ''.isdigit() }}
{{ d.n.k[1] }}|{{ d['n']['k'][0] }}|{{ d.n|tojson }}|{{ {'a': 1, 'b': [1, 2]}|tojson }}|{{ {}|tojson }}|{{ [] | tojson }}|{{ {'x': (1 if f else 2)}['x'] }}
{{ "double 'q'" }}|{{ 'single "q"' }}|{{ 'it\'s' }}|{{ 'tab\tnl\n|' }}|{{ 'é日' }}|{{ "\u00e9" }}
{# comment #}a{#- trimmed -#}  b  {#- x #} c
{% raw %}{{ not }} {% rendered %}{% endraw %}|{{ '{{' }}
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}|{% filter upper %}abc{{ w }}{% endfilter %}
{% generation %}{{ w }}{% set g = 5 %}{% endgeneration %}{{ g }}
{% if ed %}x{% else %}empty{% endif %}|{% if d %}full{% endif %}|{% if el %}x{% else %}e{% endif %}|{% if q %}x{% else %}u{% endif %}|{% if n %}x{% elif i == 7 %}seven{% endif %}
{% if (w is defined and w) or f %}1{% endif %}{% if w is defined and w is not none and w|length > 2 %}2{% endif %}{% if not (f or n) %}3{% endif %}
{{ raise_exception('bad ' ~ i) if t else 'ok' }}
{{ raise_exception('bad') if f else 'ok' }}
{{ (ms|length - 1) - 1 }}|{{ ms|length > 2 and 'y' }}|{{ (ms[0].content + '!')|upper }}|{{ ms[0].content + w|upper }}
{%- for k, v in d.items() -%}{{- '<' + k + '>' + (v if v is string else v|tojson) + '\n' -}}{%- endfor -%}
{{ s.split('\n')|length }}|{{ (s ~ '').strip()|length }}|{{ ((w))[0] }}|{{ (w).upper() }}|{{ (w.upper()).lower() }}|{{ ([1, 2])[0] }}|{{ (1, 2)[1] }}
{{ d.items()|list|length }}|{{ d.keys()|list }}|{{ d.values()|list|length }}|{{ d|length }}|{{ w|list|length }}
{{ loop is defined }}|{{ i if i is defined else 'no' }}|{{ (q if q is defined else 'no') }}|{{ [q is defined, n is none] }}
{{ 'a' ~ 1 ~ n ~ 'b' }}|{{ n }}|{{ t }}|{{ q }}|{{ x }}|{{ 1e3 }}|{{ 100000000000000000.0 }}|{{ 0.00001 }}
{{ 1 if not t }}|{{ i is divisibleby(7) }}|{{ i is odd }}|{{ i is even }}|{{ i is eq(7) }}|{{ 'A' is upper }}|{{ 'a' is lower }}
{% if m is not defined %}undefined{% endif %}{% set m = ms[0] %}{% if m.role == 'user' and (m.content is string or m.content is iterable) %}ok{% endif %}
{{- '\n' }}|{{ '  x  ' }}|
    {% if t %}
    indented
    {% endif %}
  {{ w }}
"""


def snippets():
    cases = []
    lines = SNIPPETS.strip("\n").split("\n")
    tail = "\n".join(lines[-5:])
    for source in lines[:-5] + [tail]:
        try:
            cases.append({"source": source, "rendered": ENV.from_string(source).render(**VARS)})
        except TemplateError as e:
            if e.__class__ is TemplateError:
                cases.append({"source": source, "raised": str(e)})
            else:
                print("not Jinja:", source, e)
    return {"vars": VARS, "cases": cases}


def write(path, value):
    with open(path, "w") as f:
        f.write(json.dumps(value, ensure_ascii=False, indent=0, separators=(",", ":")) + "\n")


def numbers():
    """What json.dumps(json.loads(x)) makes of numbers and strings."""
    texts = ["0", "-0", "-0.0", "1.0", "1e5", "1E5", "1e-5", "1e-4", "0.0001", "123456789012345678901234567890", "1e15", "1e16", "1.5e300",
             "1e22", "9007199254740993", "0.1", "1e999", "-1e999", "5e-324", "100000000000000000.0", "2.5", "1.7976931348623157e308",
             r'"\u0000\u001f\u007f\u0080\u2028"', r'"\b\f\n\r\t\"\\\/"', r'"\ud83d\ude00"', '"é日😀<>&\'"', '[]', '{}', '[ ]',
             '{"b": 1, "a": {"z": [], "y": [1, 2]}}', '{"a": 1, "b": 2, "a": 3}', ' [1 , null,true , false ] ']
    r = random.Random(2)
    texts += [repr(r.uniform(-1, 1) * 10 ** r.randint(-30, 30)) for _ in range(100)]
    return [{"json": t, "dumped": json.dumps(json.loads(t), ensure_ascii=False),
             "ascii": json.dumps(json.loads(t), indent=1, sort_keys=True)} for t in texts]


if __name__ == "__main__":
    import sys
    source = open(sys.argv[1] if len(sys.argv) > 1 else "../../../scripts/demo-model/checkpoint/chat_template.jinja").read()
    write(sys.argv[2] if len(sys.argv) > 2 else "jinja_conversations.json", conversations(source, 300, 1))
    write("jinja_snippets.json", snippets())
    write("json_dumps.json", numbers())
