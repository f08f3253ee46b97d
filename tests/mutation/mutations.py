# SPDX-License-Identifier: Apache-2.0
"""The mutations that a source can have, and which of them a seed draws."""
import random
import re
from dataclasses import dataclass

import cpp_text

_FLIPPED = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
# clang-format puts spaces around operators of two operands, and none inside the brackets of templates.
_COMPARISON = re.compile(r"(?<=\s)(?:<=|>=|==|!=|<|>)(?=\s)")
_LOGICAL = re.compile(r"(?<=\s)(?:&&|\|\|)(?=\s)")
_SUM = re.compile(r"(?<=\s)(?:\+=|-=|\+|-)(?=\s)|\+\+|--")
_SWAPPED = {"&&": "||", "||": "&&", "+": "-", "-": "+", "+=": "-=", "-=": "+=", "++": "--", "--": "++"}
_INTEGER = re.compile(r"(?<![\w.'])(0[xX][0-9a-fA-F']+|0[bB][01']+|\d[\d']*)([uUlLzZ]*)(?![\w.'])")
_BOOLEAN = re.compile(r"\b(?:true|false)\b")
_SMALLER = re.compile(r"\bstd::(min|max)(?=[(<])")
_CONDITION = re.compile(r"\b(?:if|while)\s*\(")

# Statements that no mutation touches. Sentences of the log and the room that a container reserves change no result.
_UNTOUCHED = re.compile(
    r"(?:static_assert|using|typedef|assert)\b|(?:[\w:]+(?:\.|->|::))?(?:log|log_\w+|warn|warning|syslog)\s*\("
    r"|[\w.\->]+(?:\.|->)reserve\s*\(|\(void\)\s*\w+\s*;|[{};]")
# What a test cannot tell from one more or one less: how long something waits.
_TIME = re.compile(r"(?:nanoseconds|microseconds|milliseconds|seconds|minutes|hours)\s*[({]\s*$")
_DECLARATION = re.compile(
    r"(?:\[\[[^\]]*\]\]\s*)?"
    r"(?:(?:const|constexpr|constinit|static|thread_local|auto|unsigned|signed|volatile|struct|enum|extern)\b"
    r"|[A-Za-z_][\w:]*(?:<[^;]*>)?(?:\s*(?:const\s*)?[&*]+\s*|\s+)(?:const\s+)?[A-Za-z_]\w*\s*[=;({\[,])")
_KEYWORD = re.compile(r"(?:return|throw|delete|goto|co_return|co_yield|co_await|break|continue|NEURON_TRY\s*\()")
_JUMP = re.compile(r"(?:return\b|throw\b|break\s*;|continue\s*;)")


@dataclass(frozen=True)
class Mutation:
    """text[start:end] of a file becomes `new`; `line` counts from 1."""
    file: str
    line: int
    kind: str
    start: int
    end: int
    new: str

    def apply(self, text):
        # As many lines as before: what a compiler or a test says of later ones stays right.
        removed = text[self.start:self.end].count("\n") - self.new.count("\n")
        return text[:self.start] + self.new + "\n" * max(0, removed) + text[self.end:]

    def lines(self, text):
        """The lines before and after, as two lists, for a reader."""
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.end)
        last = len(text) if last < 0 else last
        after = text[first:self.start] + self.new + text[self.end:last]
        return text[first:last].split("\n"), [line for line in after.split("\n") if line.strip()]


def _one_off(match):
    """The integer plus one and minus one, in the base that it is written in."""
    digits, suffix = match.group(1), match.group(2)
    plain = digits.replace("'", "")
    if plain[:2] in ("0x", "0X"):
        value, text = int(plain, 16), "0x{:X}"
    elif plain[:2] in ("0b", "0B"):
        value, text = int(plain, 2), "0b{:b}"
    elif len(plain) > 1 and plain[0] == "0":
        value, text = int(plain, 8), "0{:o}"
    else:
        value, text = int(plain), "{}"
    return [text.format(other) + suffix for other in (value + 1, value - 1) if other >= 0]


def _conditions(code, statement):
    """The negation of the condition, (start, end, text), of each `if` and `while` of the statement."""
    for match in _CONDITION.finditer(code, statement.start, statement.end):
        end = cpp_text.closing(code, match.end() - 1)
        if end < 0:
            continue
        start = match.end()
        if (separator := code.rfind(";", start, end)) >= 0:
            start = separator + 1
            while code[start].isspace():
                start += 1
        condition = code[start:end]
        if "{" in condition or condition in ("true", "1") or _DECLARATION.match(condition):
            continue
        yield start, end


def of_text(file, text):
    """Every mutation of a source, by line."""
    code = cpp_text.blank(text)
    lines = cpp_text.Lines(text)
    found = {}

    def add(kind, start, end, new):
        mutation = Mutation(file, lines.of(start), kind, start, end, new)
        found.setdefault((start, end, new), mutation)

    for statement in cpp_text.statements(code):
        core = cpp_text.core(code, statement)
        if _UNTOUCHED.match(code, core) and (core < statement.end or not statement.has_block):
            continue
        span = (statement.start, statement.end)
        declares = _DECLARATION.match(code, core) is not None and not _KEYWORD.match(code, core)
        for match in _COMPARISON.finditer(code, *span):
            for other in _FLIPPED[match.group()]:
                add("comparison", match.start(), match.end(), other)
        for match in _LOGICAL.finditer(code, *span):
            add("and/or", match.start(), match.end(), _SWAPPED[match.group()])
        for match in _SUM.finditer(code, *span):
            if '"' in code[match.start() - 2:match.end() + 2]:  # of strings there is no difference
                continue
            add("plus/minus", match.start(), match.end(), _SWAPPED[match.group()])
        for match in _SMALLER.finditer(code, *span):
            add("min/max", match.start(1), match.end(1), {"min": "max", "max": "min"}[match.group(1)])
        for match in _BOOLEAN.finditer(code, *span):
            if not re.search(r"\bwhile\s*\($", code[:match.start()]):
                add("boolean", match.start(), match.end(), {"true": "false", "false": "true"}[match.group()])
        for match in _INTEGER.finditer(code, *span):
            before = code[max(0, match.start() - 40):match.start()]
            bound = declares and before.endswith("[") and "=" not in code[core:match.start()]
            if bound or before.endswith("<") or _TIME.search(before):
                continue
            for other in _one_off(match):
                add("off by one", match.start(), match.end(), other)
        for start, end in _conditions(code, statement):
            add("negated condition", start, end, f"!({text[start:end]})")
        if statement.has_block or core >= statement.end - 1:
            continue
        if _JUMP.match(code, core):
            if (statement.in_block or core > statement.start) and not _ends_switch(code, statement, core):
                kind = "return removed" if code.startswith("return", core) else "dropped statement"
                add(kind, core, statement.end, ";")
        elif not declares and not _KEYWORD.match(code, core):
            add("dropped statement", core, statement.end, ";")
    by_line = {}
    for mutation in sorted(found.values(), key=lambda m: (m.start, m.end, m.new)):
        by_line.setdefault(mutation.line, []).append(mutation)
    return by_line


_LABELS = re.compile(r"\s*(?:(?:case\b[^;{}]*?|default\s*):(?!:)\s*)*")


def _ends_switch(code, statement, core):
    """Whether this is the `break` behind which a switch ends: without it, the switch ends there too."""
    if not code.startswith("break", core) or _LABELS.fullmatch(code, statement.start, core) is None:
        return False
    end = statement.end
    while end < len(code) and code[end].isspace():
        end += 1
    if code[end:end + 1] != "}":
        return False
    depth, begin = 1, end
    while depth and begin:
        begin -= 1
        depth += {"}": 1, "{": -1}.get(code[begin], 0)
    return re.search(r"\bswitch\s*\((?:[^(){}]|\((?:[^(){}]|\([^(){}]*\))*\))*\)\s*$", code[max(0, begin - 400):begin]) is not None


class Drawing:
    """Mutations in an order that the seed decides: each line with statements is as likely as any other, then each kind
    that the line allows. None comes twice."""

    def __init__(self, texts, seed):
        self._lines = []
        for file in sorted(texts):
            self._lines += [mutations for _, mutations in sorted(of_text(file, texts[file]).items())]
        self._random = random.Random(seed)
        self._drawn = set()

    def lines(self):
        return len(self._lines)

    def next(self):
        """The next one; None if too few are left to find one."""
        for _ in range(10000 if self._lines else 0):
            line = self._random.choice(self._lines)
            kind = self._random.choice(sorted({mutation.kind for mutation in line}))
            mutation = self._random.choice([m for m in line if m.kind == kind])
            if mutation not in self._drawn:
                self._drawn.add(mutation)
                return mutation
        return None


def normal(lines):
    """Lines as a table of equivalent mutations holds them: one line, single spaces."""
    return " ".join(" ".join(lines).split())
