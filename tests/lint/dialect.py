#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One dialect of C++ where clang-format and clang-tidy do not decide it, or would need the whole night to look:

- `uint32_t`, `size_t` and the like without `std::`;
- the guard of a header is its path in capitals (RUNTIME_TENSOR_TENSOR_H), and the `#endif` behind it is bare;
- `++i` where nobody reads the value of `i++`;
- a statement below if, else, for or while stands in braces unless it ends on the line of these.

driver/core and driver/kmod are written in the style of the kernel, which decides the last two otherwise; public headers have the guards
that their users know; -inl.h files are included once for each SIMD target, and the kernel's trace points several times.
`dialect.py` checks; `dialect.py --fix` changes the files (then run clang-format)."""
import argparse
import re
import sys

import cpp
import tree

C_STYLE = ("driver/core/", "driver/kmod/", "tests/vm/importer/")
TYPE = re.compile(r"(?:u?int(?:8|16|32|64|max|ptr|_least\d+|_fast\d+)|size|ptrdiff)_t")
GUARD = re.compile(r"^#ifndef (\w+)\n#define (\w+)\n", re.MULTILINE)
LAST_LINE = re.compile(r"^#endif\b.*\n+\Z", re.MULTILINE)
STATEMENTS = ("if", "for", "while")
KEYWORDS = STATEMENTS + ("switch", "return", "catch", "else", "do", "throw", "case")
CLOSING = cpp.OPENING.values()


class Finding:
    """What is wrong in a line, and the edits (begin, end, text) that mend it."""

    def __init__(self, line, text, edits):
        self.line, self.text, self.edits = line, text, edits


def types(tokens):
    """Names of std that C has as well."""
    for std, colons, name in zip(tokens, tokens[1:], tokens[2:]):
        if std.text == "std" and colons.text == "::" and TYPE.fullmatch(name.text):
            yield Finding(name.line, f"write {name.text} without std::", [(std.begin, name.begin, "")])


def guard(name, text):
    wanted = re.sub(r"[^A-Z0-9]", "_", name.upper())
    match = GUARD.search(text)
    if match is None:
        yield Finding(1, f"a guard is missing: #ifndef {wanted}, #define {wanted}", [])
        return
    line = text.count("\n", 0, match.start()) + 1
    if match.groups() != (wanted, wanted):
        yield Finding(line, f"its guard is {wanted}", [(match.start(), match.end(), f"#ifndef {wanted}\n#define {wanted}\n")])
    last = LAST_LINE.search(text)
    if last is None:
        yield Finding(text.count("\n"), "it ends with the #endif of its guard", [])
    elif last.group() != "#endif\n":
        yield Finding(text.count("\n", 0, last.start()) + 1, "the last line is #endif and nothing else", [(last.start(), last.end(), "#endif\n")])


def before_pair(tokens, index):
    """The index before the bracket whose pair ends at `index`."""
    depth = 0
    while index >= 0:
        depth += (tokens[index].text in CLOSING) - (tokens[index].text in cpp.OPENING)
        index -= 1
        if depth == 0:
            break
    return index


def first_of_operand(tokens, index):
    """The index at which a name with its members, elements and calls begins whose last token is at `index`."""
    while True:
        while index >= 0 and tokens[index].text in (")", "]"):
            index = before_pair(tokens, index)
        if index < 0 or not tokens[index].text.isidentifier() or tokens[index].text in KEYWORDS:
            return index + 1  # it begins with a parenthesis
        if index == 0 or tokens[index - 1].text not in (".", "->", "::"):
            return index
        index -= 2


def statement_heads(tokens):
    """{index of the `)`: index of the `(`} behind if, for and while."""
    found = {}
    for index, token in enumerate(tokens[:-1]):
        if token.text in STATEMENTS:
            at = index + 1 + (tokens[index + 1].text == "constexpr")
            if tokens[at].text == "(":
                found[cpp.after_pair(tokens, at) - 1] = at
    return found


def loop_parts(tokens, closing):
    """(indices in the heads of loops, those of them behind the second `;` and in no other brackets)."""
    inside, last = set(), set()
    for end, begin in closing.items():
        if tokens[begin - 1].text != "for":
            continue
        inside.update(range(begin + 1, end))
        at, parts = begin + 1, 0
        while at < end:
            parts += tokens[at].text == ";"
            if tokens[at].text in cpp.OPENING:
                at = cpp.after_pair(tokens, at)
                continue
            if parts == 2:
                last.add(at)
            at += 1
    return inside, last


def begins_statement(tokens, index, closing):
    before = tokens[index - 1].text
    if before == ":":
        at = index - 2
        while tokens[at].text.isidentifier() or tokens[at].text == "::":
            if tokens[at].text in ("case", "default"):
                return True
            at -= 1
        return False
    return before in (";", "{", "}", "else", "do") or index - 1 in closing


def increments(tokens):
    """Postfix forms whose value nobody reads: a whole statement, or a part of what a loop does after each round."""
    closing = statement_heads(tokens)
    in_heads, in_last_parts = loop_parts(tokens, closing)
    for index, token in enumerate(tokens[:-1]):
        if token.text not in ("++", "--") or index == 0:
            continue
        if not tokens[index - 1].text.isidentifier() and tokens[index - 1].text not in ("]", ")"):
            continue
        begin = first_of_operand(tokens, index - 1)
        after = tokens[index + 1].text
        if index in in_last_parts:
            alone = tokens[begin - 1].text in (";", ",") and (after == "," or index + 1 in closing)
        else:
            alone = after == ";" and index not in in_heads and begins_statement(tokens, begin, closing)
        if alone:
            text = f"write {token.text} in front: nobody reads the value"
            yield Finding(token.line, text, [(tokens[begin].begin, tokens[begin].begin, token.text), (token.begin, token.end, "")])


def behind_attributes(tokens, index):
    """The index behind [[likely]] and the like."""
    while tokens[index].text == "[" and tokens[index + 1].text == "[":
        index = cpp.after_pair(tokens, index)
    return index


def end_of_statement(tokens, index):
    """The index behind the statement that begins at `index`."""
    index = behind_attributes(tokens, index)
    text = tokens[index].text
    if text == "{":
        return cpp.after_pair(tokens, index)
    if text in STATEMENTS + ("switch",):
        at = index + 1 + (tokens[index + 1].text == "constexpr")
        at = end_of_statement(tokens, cpp.after_pair(tokens, at))
        if text == "if" and at < len(tokens) and tokens[at].text == "else":
            at = end_of_statement(tokens, at + 1)
        return at
    if text == "do":
        at = end_of_statement(tokens, index + 1)
        return end_of_statement(tokens, cpp.after_pair(tokens, at + 1))
    if text == "try":
        at = cpp.after_pair(tokens, index + 1)
        while at < len(tokens) and tokens[at].text == "catch":
            at = cpp.after_pair(tokens, cpp.after_pair(tokens, at + 1))
        return at
    return cpp.after_semicolon(tokens, index)


def braces(tokens, text):
    """Bodies that end below the line of what they belong to, and are not in braces."""
    closing = statement_heads(tokens)
    for index, token in enumerate(tokens[:-1]):
        if not (index in closing or (token.text == "else" and tokens[index + 1].text != "if")):
            continue
        begin = behind_attributes(tokens, index + 1)
        if tokens[begin].text in ("{", ";"):
            continue
        end = end_of_statement(tokens, begin)
        if end > len(tokens) or tokens[end - 1].line == token.line:
            continue
        line_end = text.find("\n", tokens[end - 1].end)
        edits = [(tokens[begin - 1].end, tokens[begin - 1].end, " {"), (line_end, line_end, "\n}")]
        yield Finding(token.line, "a body that ends on another line stands in braces", edits)


def findings(name, text):
    tokens = cpp.tokens(text)
    c_style = name.startswith(C_STYLE) or name.endswith(".c")
    found = list(types(tokens))
    if not name.startswith("include/"):
        if name.endswith(".h") and not name.endswith("-inl.h") and "TRACE_HEADER_MULTI_READ" not in text:
            found += guard(name, text)
        if not c_style:
            found += increments(tokens)
            found += braces(tokens, text)
    return sorted(found, key=lambda finding: finding.line)


def mended(text, found):
    edits = sorted((edit for finding in found for edit in finding.edits), key=lambda edit: edit[:2])
    parts, end = [], 0
    for begin, behind, replacement in edits:
        parts += [text[end:begin], replacement]
        end = behind
    return "".join(parts) + text[end:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true", help="change the files")
    parser.add_argument("paths", nargs="*", help="only files whose path begins so")
    arguments = parser.parse_args()
    complaints = []
    for name in tree.files(".c", ".h", ".cpp"):
        if arguments.paths and not name.startswith(tuple(arguments.paths)):
            continue
        text = tree.text(name)
        found = findings(name, text)
        if arguments.fix and found:
            with open(name, "w", encoding="utf-8") as file:
                file.write(mended(text, found))
            found = [finding for finding in found if not finding.edits]
        complaints += [f"{name}:{finding.line}: {finding.text}" for finding in found]
    return tree.report(complaints)


if __name__ == "__main__":
    sys.exit(main())
