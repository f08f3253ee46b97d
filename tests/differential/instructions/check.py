#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random instructions on an emulated device against the model in NumPy, bit by bit.

  check.py --target trn2 --cases 1032 --seed 7    a run of many
  check.py --target trn2 --seed 7 --case 123      one case of it alone, with its instructions
  check.py --target trn2 --seeds 100              as many seeds, from --seed on
  check.py --target trn2 --only matmul            cases of one instruction
"""
import argparse
import collections
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np  # noqa: E402  the path comes first

import integer64_cases  # noqa: E402
import memory_cases  # noqa: E402
import pool_cases  # noqa: E402
import scalar_cases  # noqa: E402
import tensor_cases  # noqa: E402
import vector_cases  # noqa: E402
from case import Case  # noqa: E402
from program import GENERATIONS, Program, Refused, packed  # noqa: E402

# Of NaN and what is too large; cases have both on purpose.
np.seterr(all="ignore")
GROUPS = (vector_cases, scalar_cases, pool_cases, tensor_cases, memory_cases, integer64_cases)


def instructions(generation):
    """What makes cases for a generation, in a fixed order."""
    return [make for group in GROUPS for since in (2, 3, 4) if since <= generation for make in group.CASES[since]]


def made(target, seed, number):
    """Case `number` of a seed; it depends on nothing else."""
    makers = instructions(GENERATIONS[target])
    maker = makers[number % len(makers)]
    case = Case(GENERATIONS[target], seed, number)
    case.name = maker.__name__
    maker(case)
    return case


def failures(target, cases, folder):
    """Sentences about the cases whose memory is not as the model says."""
    try:
        memories = Program(target, cases).run(folder)
    except Refused as problem:
        if len(cases) == 1:
            return [_sentence(target, cases[0], str(problem))]
        # Which of them? The first one is enough; both halves alone may be accepted.
        half = len(cases) // 2
        return (failures(target, cases[:half], folder) or failures(target, cases[half:], folder)
                or [f"{target}: {problem}"])
    return [_sentence(target, case, text) for case, memory in zip(cases, memories)
            for text in case.differences(memory)]


def _sentence(target, case, text):
    return (f"case {case.number} ({case.name}): {text}\n{case.text()}\n"
            f"  alone: tests/differential/instructions/check.py --target {target} --seed {case.seed} "
            f"--case {case.number}")


def check(target, seed, numbers, say=print):
    """Runs cases; returns the sentences about those that differ, and how many there were of each instruction."""
    found, counts = [], collections.Counter()
    cases = (made(target, seed, number) for number in numbers)
    with tempfile.TemporaryDirectory() as folder:
        for group in packed(cases):
            counts.update(case.name for case in group)
            for sentence in failures(target, group, folder):
                say(sentence)
                found.append(sentence)
    return found, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=GENERATIONS, default="trn2")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--cases", type=int, default=1032)
    parser.add_argument("--case", type=int)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    makers = instructions(GENERATIONS[options.target])
    numbers = range(options.cases) if options.case is None else [options.case]
    numbers = [n for n in numbers if options.only in makers[n % len(makers)].__name__]
    total, first = 0, time.monotonic()
    for seed in range(options.seed, options.seed + options.seeds):
        found, counts = check(options.target, seed, numbers)
        total += len(found)
        if options.case is not None and not found:
            print(made(options.target, seed, options.case).text())
    print(f"{options.target}, seed {options.seed}{f' to {seed}' if options.seeds > 1 else ''}: "
          f"{sum(counts.values())} cases a seed of {len(counts)} kinds, {total} differ, "
          f"{time.monotonic() - first:.1f} s")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
