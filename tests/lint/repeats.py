#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No run of more than 12 lines exists twice in the product: what two places need belongs into one.

Compared are lines without their indentation; blank lines, comments and includes do not count and do not interrupt a run. Runs are
compared within a file, too. repeats.txt names the exceptions: `file file reason` for two files (or one file twice) that may share runs.
A row that hides nothing is a complaint."""
import re
import sys
from typing import NamedTuple

import cpp
import includes
import tree

TABLE = "tests/lint/repeats.txt"
LIMIT = 12
SUFFIXES = (".c", ".h", ".cpp", ".py", ".js", ".proto")
HASH_COMMENT = re.compile(r"^\s*#.*")


class Line(NamedTuple):
    number: int
    text: str


class Run(NamedTuple):
    first: tuple  # (file, line it begins at)
    second: tuple
    lines: int


def lines_of(name, text):
    """The lines that count."""
    found = []
    if name.endswith(".py"):
        kept = [HASH_COMMENT.sub("", line) for line in text.split("\n")]
    else:
        # Only the comments are needed; literals stay as they are.
        kept = cpp.without_comments(text, literals=True).split("\n")
    for number, line in enumerate(kept, 1):
        line = line.strip()
        if line and not (includes.INCLUDE.match(line) or line.startswith(("import ", "from "))):
            found.append(Line(number, line))
    return found


def runs(files):
    """All pairs of runs of more than LIMIT equal lines, each as long as it can be. `files` is {name: [Line]}."""
    size = LIMIT + 1
    numbers = {}  # text: a number for it
    coded = {name: [numbers.setdefault(line.text, len(numbers)) for line in lines] for name, lines in files.items()}
    places = {}
    for name, codes in coded.items():
        for index in range(len(codes) - LIMIT):
            places.setdefault(tuple(codes[index : index + size]), []).append((name, index))
    found = []
    for group in places.values():
        for position, (left, at) in enumerate(group):
            for right, other in group[position + 1 :]:
                a, b = coded[left], coded[right]
                if at and other and a[at - 1] == b[other - 1]:
                    continue  # a part of a longer run
                length = size
                while at + length < len(a) and other + length < len(b) and a[at + length] == b[other + length]:
                    length += 1
                # Within one file a row of equal lines overlaps itself.
                if left == right:
                    length = min(length, other - at)
                if length > LIMIT:
                    found.append(Run((left, files[left][at].number), (right, files[right][other].number), length))
    return sorted(found, key=lambda run: (-run.lines, run))


def read_exceptions(text):
    """({frozenset of the files}, complaints)."""
    rows, complaints = set(), []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) < 3:
            complaints.append(f"{TABLE}:{number}: a row is `file file reason`")
        else:
            rows.add(frozenset(words[:2]))
    return rows, complaints


def main():
    exceptions, complaints = read_exceptions(tree.text(TABLE))
    used = set()
    for run in runs({name: lines_of(name, tree.text(name)) for name in tree.product_files(*SUFFIXES)}):
        pair = frozenset((run.first[0], run.second[0]))
        used.add(pair)
        if pair not in exceptions:
            complaints.append(f"{run.first[0]}:{run.first[1]}: {run.lines} lines are also at {run.second[0]}:{run.second[1]}")
    complaints += [f"{TABLE}: {' '.join(sorted(pair))} needs no exception" for pair in exceptions - used]
    return tree.report(complaints)


if __name__ == "__main__":
    sys.exit(main())
