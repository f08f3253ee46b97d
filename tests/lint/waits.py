#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing waits without a deadline: endless loops and waits that take no time are errors outside tests, unless the
same line or the one above says `bounded:` and why it ends."""
import re
import sys

import tree

PATTERNS = (
    (re.compile(r"\bwhile\s*\(\s*(true|1)\s*\)"), "endless loop"),
    (re.compile(r"\bfor\s*\([^;]*;\s*;"), "endless loop"),
    (re.compile(r"\.wait\s*\(\s*\w+\s*\)"), "condition wait without predicate and deadline"),
    (re.compile(r"\bpthread_cond_wait\s*\("), "condition wait without deadline"),
    (re.compile(r"\b(poll|epoll_wait)\s*\([^;]*,\s*-1\s*\)"), "poll without time limit"),
    (re.compile(r"\bsem_wait\s*\("), "semaphore wait without deadline"),
)


def main():
    complaints = 0
    for name in tree.files(".c", ".h", ".cpp"):
        if name.startswith("tests/"):
            continue
        with open(name, encoding="utf-8") as file:
            before = ""
            for number, line in enumerate(file, 1):
                code = line.split("//")[0]
                for pattern, what in PATTERNS:
                    if pattern.search(code) and "bounded:" not in line and "bounded:" not in before:
                        print(f"{name}:{number}: {what}; give it a deadline, or say `bounded:` and why it ends")
                        complaints += 1
                before = line
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
