# SPDX-License-Identifier: Apache-2.0
"""Finds the statements of C and C++ sources that clang-format has formatted: what stands in bodies of functions, not
declarations of types and functions. It is no parser of C++: it knows strings, comments, brackets, and what stands
before a brace."""
import bisect
import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<number>(?<!\w)\d(?:'?[\w.])*)
      | (?P<comment>//(?:[^\n\\]|\\.)* | /\*.*?\*/)
      | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
      | (?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")
      | (?P<character>'(?:[^'\\\n]|\\.)+')
      | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\.)*)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_LAMBDA = re.compile(
    r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\s*(?:\((?P<parameters>[^{}]*)\)\s*)?"
    r"(?:mutable\b|noexcept\b|constexpr\b|\s)*(?:->\s*[^{};()]+)?$"
)
_BODY_OF_FUNCTION = re.compile(
    r"(?:\)|\}|\b(?:const|noexcept|override|final|try)|\)\s*&&?|\)[^;{}]*->[^;{}]*)\s*$")
_INITIALIZERS = re.compile(r"\)\s*(?:noexcept\s*)?:(?!:)")
_ACCESS = re.compile(r"^\s*(?:public|private|protected)\s*:(?!:)")
_TEMPLATE = re.compile(r"^template\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>\s*(?:requires\b[^{};]*?\s(?=struct|class))?")
_TYPE = re.compile(r"^(?:typedef\s+)?(?:class|struct|union)\b")
_HEAD = re.compile(
    r"\s*(?:else\b|do\b|default\s*:(?!:)|case\b(?:[^:]|::)*:(?!:)|(?P<open>(?:if|for|while|switch)\b\s*(?:constexpr\b\s*)?\())"
)


@dataclass(frozen=True)
class Statement:
    """code[start:end]: with its semicolon, or, of one that a block follows, without the brace."""
    start: int
    end: int
    has_block: bool
    in_block: bool  # below another block than that of its function


@dataclass
class _Frame:
    kind: str
    start: int
    parentheses: int = 0
    goes_on: bool = False  # the statement around it goes on behind the closing brace


def blank(text):
    """The text with spaces for comments, directives, and what stands between quotes; every offset stays as it is."""
    def replace(match):
        found = match.group()
        if match.lastgroup == "number" or match.group("number"):
            return found
        spaces = re.sub(r"[^\n]", " ", found)
        return '"' + spaces[1:-1] + '"' if found[-1] in "\"'" and not match.group("comment") and not match.group(
            "directive") else spaces
    return _TOKEN.sub(replace, text)


def closing(code, opening):
    """Where the bracket closes that opens at `opening`; -1 if nowhere."""
    depth = 0
    for place in range(opening, len(code)):
        if code[place] in "([{":
            depth += 1
        elif code[place] in ")]}":
            depth -= 1
            if depth == 0:
                return place
    return -1


def core(code, statement):
    """Where the statement itself begins, behind each `if (…)`, `else`, `for (…)` and label that stands before it."""
    place = statement.start
    while (head := _HEAD.match(code, place, statement.end)) is not None:
        place = head.end()
        if head.group("open"):
            place = closing(code, place - 1) + 1
            if place == 0:
                return statement.end
    while place < statement.end and code[place].isspace():
        place += 1
    return place


def _is_lambda(before):
    found = _LAMBDA.search(before)
    if found is None:
        return False
    parameters = found.group("parameters") or ""
    return parameters.count("(") == parameters.count(")")


def _kind_in_function(before, parentheses):
    if _is_lambda(before):
        return "lambda"
    if parentheses > 0:
        return "list"
    if before == "" or before.endswith(")") or re.search(r"(?:\b(?:else|do|try)|[^:]:)$", before):
        return "block"
    if re.match(r"enum\b", before):
        return "enum"
    if _TYPE.match(before):
        return "type"
    return "list"


def _kind_outside(before, parentheses):
    while (access := _ACCESS.match(before)) is not None:
        before = before[access.end():].strip()
    before = _TEMPLATE.sub("", before)
    if _is_lambda(before):
        return "lambda"
    if parentheses > 0:
        return "list"
    if re.search(r"\bnamespace\b[\w\s:]*$", before) or re.search(r'\bextern\s+"\s*"$', before):
        return "namespace"
    if re.match(r"enum\b", before):
        return "enum"
    if _TYPE.match(before) and not before.endswith(")"):
        return "type"
    if _INITIALIZERS.search(before):
        return "function" if before[-1] in ")}" else "list"
    return "function" if _BODY_OF_FUNCTION.search(before) else "list"


def statements(code):
    """Every statement of `code`, which is blank(): those of lambdas too, which lie within another statement."""
    found = []
    frames = [_Frame("namespace", 0)]

    def inside():
        return frames[-1].kind in ("function", "block", "lambda")

    def record(end, has_block):
        frame = frames[-1]
        start = frame.start
        while start < end and code[start].isspace():
            start += 1
        if start < end:
            found.append(Statement(start, end, has_block, frame.kind == "block"))

    for mark in re.finditer(r"[(){};]", code):
        place = mark.start()
        frame = frames[-1]
        if mark.group() == "(":
            frame.parentheses += 1
        elif mark.group() == ")":
            frame.parentheses = max(0, frame.parentheses - 1)
        elif mark.group() == ";":
            if frame.parentheses == 0:
                if inside():
                    record(place + 1, False)
                frame.start = place + 1
        elif mark.group() == "{":
            before = code[frame.start:place].strip()
            kind = (_kind_in_function if inside() else _kind_outside)(before, frame.parentheses)
            if kind == "block":
                record(place, True)
            frames.append(_Frame(kind, place + 1, goes_on=kind in ("lambda", "list")))
        elif len(frames) > 1:
            frames.pop()
            if not frame.goes_on:
                frames[-1].start = place + 1
    return sorted(found, key=lambda statement: (statement.start, statement.end))


class Lines:
    """Which line an offset is on."""

    def __init__(self, text):
        self._starts = [0] + [at.end() for at in re.finditer("\n", text)]

    def of(self, offset):
        return bisect.bisect_right(self._starts, offset)
