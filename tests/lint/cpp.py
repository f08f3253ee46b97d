# SPDX-License-Identifier: Apache-2.0
"""Tokens of C and C++, as far as checks of style need them: without comments, with literals as one token each, without the lines of the
preprocessor, and of #if … #else … #endif only the first branch, so that braces stay balanced."""
import re
from typing import NamedTuple

COMMENT_OR_LITERAL = re.compile(
    r"""//(?:[^\n\\]|\\.|\\\n)* | /\*.*?\*/
      | (?:\b(?:u8|u|U|L))?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
      | "(?:[^"\\\n]|\\.)*" | (?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)+'""",
    re.VERBOSE | re.DOTALL,
)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE | re.DOTALL)
TOKEN = re.compile(
    r"""[A-Za-z_]\w* | \.?\d(?:[\w.']|(?<=[eEpP])[+-])* | "[^"]*" | '[^']*' | ::|->\*?|\+\+|--|<=>|\.\.\.|&&|\|\||[-+*/%&|^!=]=|<= | \S """,
    re.VERBOSE,
)
NOT_NEWLINE = re.compile(r"[^\n]")
OPENING = {"(": ")", "[": "]", "{": "}"}


class Token(NamedTuple):
    text: str
    line: int  # it begins there, and ends on this line unless it is a literal of several
    end: int  # offset in the file of what follows it

    @property
    def begin(self):
        return self.end - len(self.text)


def blank(text):
    return NOT_NEWLINE.sub(" ", text)


def without_comments(text, literals=False):
    """The text with spaces for comments, and in string and character literals unless `literals` keeps them: all else stays in its place."""

    def replacement(match):
        found = match.group()
        if found.startswith(("//", "/*")):
            return blank(found)
        return found if literals else found[-1] + blank(found[1:-1]) + found[-1]

    return COMMENT_OR_LITERAL.sub(replacement, text)


def without_directives(text):
    """The text (without comments) with spaces for directives and for all branches but the first."""
    parts, end = [], 0
    branches = []  # for each #if that is open: whether the lines are those of its first branch
    for match in DIRECTIVE.finditer(text):
        between = text[end : match.start()]
        parts += [between if all(branches) else blank(between), blank(match.group())]
        end = match.end()
        word = match.group(1)
        if word in ("if", "ifdef", "ifndef"):
            branches.append(True)
        elif word in ("else", "elif") and branches:
            branches[-1] = False
        elif word == "endif" and branches:
            branches.pop()
    return "".join(parts) + text[end:]


def tokens(text):
    """The tokens of a file; the last one is empty, so that there is one behind each."""
    code = without_directives(without_comments(text))
    found, line, end = [], 1, 0
    for match in TOKEN.finditer(code):
        line += code.count("\n", end, match.start())
        end = match.start()
        found.append(Token(match.group(), line, match.end()))
    return found + [Token("", line, len(code))]


def after_pair(found, index):
    """The index behind the bracket that closes the one at `index`."""
    waiting = []
    while index < len(found):
        text = found[index].text
        if text in OPENING:
            waiting.append(OPENING[text])
        elif waiting and text == waiting[-1]:
            waiting.pop()
        index += 1
        if not waiting:
            return index
    return index


def after_semicolon(found, index):
    """The index behind the next `;` that stands in no other brackets than `index`."""
    while index < len(found) and found[index].text != ";":
        index = after_pair(found, index) if found[index].text in OPENING else index + 1
    return index + 1


def after_angles(found, index):
    """The index behind the `>` that closes the `<` at `index`; what stands in other brackets is skipped."""
    depth = 0
    while index < len(found):
        text = found[index].text
        if text in OPENING:
            index = after_pair(found, index)
            continue
        depth += (text == "<") - (text == ">")
        index += 1
        if depth == 0:
            return index
    return index
