# SPDX-License-Identifier: Apache-2.0
"""The files that lint looks at: what git tracks or would track."""
import os
import subprocess

PRODUCT = ("driver/", "runtime/", "ccom/", "tools/")


def files(*suffixes):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True, text=True
    ).stdout.split("\n")
    return sorted({name for name in listed if name.endswith(suffixes) and os.path.exists(name)})


def product_files(*suffixes):
    return [name for name in files(*suffixes) if name.startswith(PRODUCT)]


def text(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def report(complaints):
    """Prints the complaints; returns the exit status of a check."""
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0
