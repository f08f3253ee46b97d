#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file that needs a table of contents is two files: at most 600 lines, tests 900. Public ABI headers and tables of
facts are as long as the ABI is."""
import sys

import tree

EXEMPT = ("include/",)


def main():
    complaints = 0
    for name in tree.files(".c", ".h", ".cpp", ".py"):
        if name.startswith(EXEMPT):
            continue
        limit = 900 if name.startswith("tests/") else 600
        with open(name, encoding="utf-8") as file:
            lines = sum(1 for _ in file)
        if lines > limit:
            print(f"{name}: {lines} lines, the limit is {limit}; split it by noun")
            complaints += 1
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
