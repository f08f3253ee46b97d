#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A class has at most 40 methods: one that has more does the work of several.

What counts is each member function that the body of a class, struct or union declares or defines: constructors, destructors, operators,
static functions, templates, and each overload. What does not: functions that are `= default` or `= delete`, friends, members of nested
classes (those have a count of their own), data, types, and macros. Classes in tests/ do not count.
methods.txt names the exceptions: `file class methods reason`, and a class may have no more than its row says."""
import sys
from typing import NamedTuple

import cpp
import tree

TABLE = "tests/lint/methods.txt"
LIMIT = 40
CLASS = ("class", "struct", "union")
SPECIFIERS = ("inline", "constexpr", "consteval", "explicit", "virtual")


class Count(NamedTuple):
    file: str
    line: int
    name: str
    methods: int


def class_heads(tokens):
    """[(name, index of the `{` of its body)] of all classes, wherever they are."""
    heads = []
    for index, token in enumerate(tokens):
        if token.text not in CLASS or (index and tokens[index - 1].text in ("enum", "friend")):
            continue
        name, at = "", index + 1
        while at < len(tokens):
            text = tokens[at].text
            if text == "[" or (text == "(" and tokens[at - 1].text in ("alignas", "__attribute__")):
                at = cpp.after_pair(tokens, at)
            elif text == "<":
                at = cpp.after_angles(tokens, at)
            elif text == ":":
                at = behind_bases(tokens, at + 1)
            elif text == "{":
                heads.append((name or "(without a name)", at))
                break
            elif text == "::":
                name += text
                at += 1
            elif text.isidentifier():
                if text not in ("final", "alignas", "__attribute__"):
                    name = name + text if name.endswith("::") else text
                at += 1
            else:
                break
    return heads


def behind_bases(tokens, index):
    """The index of the `{` behind a list of bases, or of what shows that there is none."""
    while index < len(tokens) and tokens[index].text not in ("{", ";", ")", "?"):
        index = cpp.after_angles(tokens, index) if tokens[index].text == "<" else index + 1
    return index


def end_of_function(tokens, index):
    """(index behind a function whose parameters end before `index`, whether it is = default or = delete)."""
    while index < len(tokens):
        text = tokens[index].text
        if text == ";":
            return index + 1, False
        if text == "=":
            return cpp.after_semicolon(tokens, index), tokens[index + 1].text in ("default", "delete")
        if text == "requires":
            index = end_of_requires(tokens, index + 1)
        elif text == ":":
            index = end_of_initialisers(tokens, index + 1)
        elif text == "{":
            index = cpp.after_pair(tokens, index)
            # The `;` that some write behind a body belongs to it; so do the handlers of a function's try.
            while index < len(tokens) and tokens[index].text == "catch":
                index = cpp.after_pair(tokens, cpp.after_pair(tokens, index + 1))
            return index, False
        elif text in ("(", "["):
            index = cpp.after_pair(tokens, index)
        elif text == "<":
            index = cpp.after_angles(tokens, index)
        else:
            index += 1
    return index, False


def end_of_name(tokens, index):
    """The index behind a name with its qualifications and template arguments."""
    while index < len(tokens):
        if tokens[index].text == "<":
            index = cpp.after_angles(tokens, index)
        elif tokens[index].text == "::" or (tokens[index].text.isidentifier() and tokens[index - 1].text == "::"):
            index += 1
        else:
            break
    return index


def end_of_requires(tokens, index):
    """The index behind the constraint that begins at `index`: concepts, expressions in parentheses, and requires-expressions."""
    while index < len(tokens):
        text = tokens[index].text
        if text == "!":
            index += 1
            continue
        if text == "requires":
            if tokens[index + 1].text == "(":
                index = cpp.after_pair(tokens, index + 1) - 1
            index = cpp.after_pair(tokens, index + 1)
        elif text == "(":
            index = cpp.after_pair(tokens, index)
        else:
            index = end_of_name(tokens, index + 1)
        if index >= len(tokens) or tokens[index].text not in ("&&", "||"):
            break
        index += 1
    return index


def end_of_initialisers(tokens, index):
    """The index of the body behind a constructor's initialisers: each is a name and a pair of brackets."""
    while index < len(tokens) and tokens[index].text != ";":
        while index < len(tokens) and tokens[index].text not in ("(", "{", ";"):
            index = cpp.after_angles(tokens, index) if tokens[index].text == "<" else index + 1
        index = cpp.after_pair(tokens, index)
        if index < len(tokens) and tokens[index].text == "...":
            index += 1
        if index >= len(tokens) or tokens[index].text != ",":
            return index
        index += 1
    return index


def is_parameters(tokens, start, index, class_name):
    """Whether the `(` at `index` of the declaration from `start` on begins the parameters of a member function."""
    # A pointer to a function or a member has a second pair: type (*name)(...), type (Class::*name)(...)
    behind = cpp.after_pair(tokens, index)
    name_end = end_of_name(tokens, index + 2) if tokens[index + 1].text.isidentifier() else index + 1
    if tokens[name_end].text in ("*", "&", "&&") and tokens[behind].text == "(":
        return False
    if not tokens[index - 1].text.isidentifier() and tokens[index - 1].text != ">":
        return False
    words = [token.text for token in tokens[start:index] if token.text not in SPECIFIERS]
    # A name alone in front of the parentheses is a constructor, or a macro.
    return len(words) > 1 or words[0] == class_name


def count_members(tokens, index, class_name):
    """The methods of the class whose body begins behind the `{` at `index`."""
    end = cpp.after_pair(tokens, index) - 1
    index += 1
    count = 0
    while index < end:
        text = tokens[index].text
        if text in ("public", "protected", "private") and tokens[index + 1].text == ":":
            index += 2
        elif text == "template":
            index = cpp.after_angles(tokens, index + 1)
        elif text == "requires":
            index = end_of_requires(tokens, index + 1)
        elif text == "friend":
            index = end_of_friend(tokens, index)
        elif text in ("using", "typedef", "static_assert", "enum"):
            index = cpp.after_semicolon(tokens, index)
        elif text == ";":
            index += 1
        elif text == "}":
            return count  # the braces are not balanced: a macro has one of them
        else:
            index, is_method = end_of_member(tokens, index, class_name)
            count += is_method
    return count


def end_of_friend(tokens, index):
    while index < len(tokens) and tokens[index].text not in (";", "{"):
        index = cpp.after_pair(tokens, index) if tokens[index].text in ("(", "[") else index + 1
    return cpp.after_pair(tokens, index) if index < len(tokens) and tokens[index].text == "{" else index + 1


def end_of_operator(tokens, index):
    """(index behind the member whose `operator` is at `index`, whether it is a method that counts)."""
    index += 3 if tokens[index + 1].text == "(" else 2  # operator() or one token of a sign or a type at least
    while tokens[index].text != "(":
        is_type = tokens[index].text == "<" and tokens[index - 1].text.isidentifier()
        index = cpp.after_angles(tokens, index) if is_type else index + 1
    end, dropped = end_of_function(tokens, cpp.after_pair(tokens, index))
    return end, not dropped


def end_of_member(tokens, index, class_name):
    """(index behind the member that begins at `index`, whether it is a method that counts)."""
    start = index
    while index < len(tokens):
        text = tokens[index].text
        is_class = tokens[start].text in CLASS
        if text == "operator":
            return end_of_operator(tokens, index)
        if text == "(" and tokens[index - 1].text in ("alignas", "decltype", "explicit", "__attribute__"):
            index = cpp.after_pair(tokens, index)
            if tokens[start].text == "explicit":
                start = index
        elif text == "(" and is_parameters(tokens, start, index, class_name):
            end, dropped = end_of_function(tokens, cpp.after_pair(tokens, index))
            return end, not dropped
        elif text == "(":
            index = cpp.after_pair(tokens, index)
            if tokens[start + 1].text == "(" and tokens[index].text not in ("(", ";", "=", "{", "["):
                return index, False  # a macro without a semicolon
        elif text == "[":
            index = cpp.after_pair(tokens, index)
            if tokens[start].text == "[":  # an attribute
                start = index
        elif text == "<":
            index = cpp.after_angles(tokens, index)
        elif text == ":" and is_class:
            index = behind_bases(tokens, index)
        elif text in (";", "=", ":") or (text == "{" and not is_class):
            return cpp.after_semicolon(tokens, index), False
        elif text == "{":
            index = cpp.after_pair(tokens, index)
        else:
            index += 1
    return index, False


def counts(name, text):
    """A Count for each class of a file."""
    tokens = cpp.tokens(text)
    return [
        Count(name, tokens[index].line, class_name, count_members(tokens, index, class_name.split("::")[-1]))
        for class_name, index in class_heads(tokens)
    ]


def read_exceptions(text):
    """({(file, class): methods}, complaints)."""
    rows, complaints = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) < 4 or not words[2].isdigit():
            complaints.append(f"{TABLE}:{number}: a row is `file class methods reason`")
            continue
        rows[words[0], words[1]] = int(words[2])
    return rows, complaints


def main():
    exceptions, complaints = read_exceptions(tree.text(TABLE))
    unused = set(exceptions)
    for name in tree.product_files(".h", ".cpp"):
        for found in counts(name, tree.text(name)):
            if found.methods <= LIMIT:
                continue
            allowed = exceptions.get((name, found.name), LIMIT)
            unused.discard((name, found.name))
            if found.methods > allowed:
                complaints.append(f"{name}:{found.line}: {found.name} has {found.methods} methods, the limit is {allowed}; split it by noun")
            elif found.methods < allowed:
                complaints.append(f"{TABLE}: {name} {found.name} has {found.methods} methods; its row says {allowed}")
    complaints += [f"{TABLE}: {name} {class_name} needs no exception" for name, class_name in sorted(unused)]
    return tree.report(complaints)


if __name__ == "__main__":
    sys.exit(main())
