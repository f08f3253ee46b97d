#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each header below a folder alone, as C11 and as C++17, with all warnings as errors.

Usage: compile_headers_alone.py INCLUDE CC CXX. Prints one line for each failure and the count; exits
with 1 if there was one. Every header is a promise to somebody who includes nothing else.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

FLAGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]


def compile_alone(include, header, compiler, language, standard):
    result = subprocess.run(
        [compiler, "-x", language, "-std=" + standard, "-I", str(include), *FLAGS, "-"],
        input='#include "%s"\nextern int not_empty;\n' % header, capture_output=True, text=True, timeout=60, check=False)
    return header, standard, result.returncode, result.stderr


def main():
    include = pathlib.Path(sys.argv[1])
    headers = sorted(str(p.relative_to(include)) for p in include.rglob("*.h"))
    jobs = [(include, header, *how) for header in headers
            for how in ((sys.argv[2], "c", "c11"), (sys.argv[3], "c++", "c++17"))]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, standard, code, errors in pool.map(lambda job: compile_alone(*job), jobs):
            if code != 0:
                failed += 1
                print("%s does not compile alone as %s:\n%s" % (header, standard, errors))
    print("%d headers, %d compilations, %d failed" % (len(headers), len(jobs), failed))
    # A folder without headers would make this test pass whatever happens.
    sys.exit(1 if failed or not headers else 0)


if __name__ == "__main__":
    main()
