# SPDX-License-Identifier: Apache-2.0
"""Many cases in one program: assembled by neuron-as, executed by neuron-run on an emulated device.

All instructions, of whichever engine, have one order: the n-th waits until the semaphore `turn` is n.
"""
import os
import re
import subprocess
from pathlib import Path

import numpy as np

from case import PARTITIONS

BUILD = Path(os.environ.get("NEURON_BUILD_DIR", Path(__file__).resolve().parents[3] / "build"))
DEVICES = {"trn1": "trn1.2xlarge", "trn2": "trn2.3xlarge", "trn3": "trn3pd98.3xlarge"}
GENERATIONS = {"trn1": 2, "trn2": 3, "trn3": 4}
ROOM = 160 * 1024  # Bytes of a partition for the cases of a program; trn1 has 192 KiB
ROW = 262144
LONGEST = 8  # Bytes of an element, at a multiple of which each case begins


class Refused(RuntimeError):
    """The assembler or the device did not accept a program."""


def _width(case):
    return (case.before.shape[1] + LONGEST - 1) // LONGEST * LONGEST


def packed(cases):
    """Lists of cases that fit into one program."""
    group, used = [], 0
    for case in cases:
        width = _width(case)
        if group and used + width > ROOM:
            yield group
            group, used = [], 0
        group.append(case)
        used += width
    if group:
        yield group


def _moved(tiles, back):
    """Copies of operands to PSUM, or back, with whatever lies between their elements."""
    for t in tiles:
        low, size = t.span
        first = t.base - (t.home - low)
        ends = [f"psum[0:128, {first}] u32 [{size // 4}]", f"sbuf[0:128, @{low}@] u32 [{size // 4}]"]
        yield "DVE", f"tensor_copy {ends[back]} = {ends[1 - back]}"


class Program:
    def __init__(self, target, cases):
        self.target, self.cases = target, cases
        self.places, at = [], 0
        for case in cases:
            self.places.append(at)
            at += _width(case)
        self.width = at

    def text(self):
        engines = {name: ["main:"] for name in ("PE", "Activation", "Pool", "DVE")}
        transfers, sp, turn, moved = [], [], 1, 0
        for case, place in zip(self.cases, self.places):
            steps = [*_moved(case.psum, 0), *case.steps, *_moved(case.psum, 1)]
            for engine, text in steps:
                text = re.sub(r"@(-?\d+)@", lambda m, place=place: str(place + int(m[1])), text)
                text = re.sub(r"sbuf \+ (\d+) \+ (\d+)", lambda m: f"sbuf + {int(m[1]) + int(m[2])}", text)
                if engine == "DMA":
                    moved += 1
                    key, _, rest = text.partition(", op=")
                    transfers.append(f".dma {moved + 1} t{moved} : {key}, queue=q_data, semaphore=moved"
                                     + (f", op={rest}" if rest else ""))
                    sp.append(f"dma_trigger t{moved}  wait(turn >= {turn})")
                    sp.append(f"event  wait(moved >= {16 * moved})  then(turn++)")
                else:
                    engines[engine].append(f"{text}  wait(turn >= {turn})  then(turn++)")
                turn += 1
        lines = [".neff name=cases, build=\"tests\"", f".target {self.target}, lnc=1", ".sem loaded, turn, stored, moved",
                 f".var before : u8 [{PARTITIONS}, {self.width}] input, format=NC",
                 f".var after : u8 [{PARTITIONS}, {self.width}] output, format=NC",
                 f".var sbuf : state-buffer, size={PARTITIONS * ROW}",
                 ".queue q_in = in, engines=16, owner=SP", ".queue q_out = out, engines=16, owner=SP",
                 ".queue q_data = data, engines=16, owner=SP", ".engine SP"]
        side = f"sbuf [{PARTITIONS}:{ROW}, {self.width}]"
        array = f"[{PARTITIONS}, {self.width}]"
        lines += [f".dma 0 load : before {array} -> {side}, queue=q_in, semaphore=loaded",
                  f".dma 1 store : {side} -> after {array}, queue=q_out, semaphore=stored"]
        lines += transfers + ["main:", "dma_trigger load", "event  wait(loaded >= 16)  then(turn++)"] + sp
        lines += [f"dma_trigger store  wait(turn >= {turn})", "event  wait(stored >= 16)", "ret"]
        for name, code in engines.items():
            lines += [f".engine {name}", *code, "ret"]
        return "\n".join(lines) + "\n"

    def run(self, folder):
        """Executes the program; returns the memory of each case after it."""
        source, neff = Path(folder) / "cases.s", Path(folder) / "cases.neff"
        source.write_text(self.text(), encoding="utf-8")
        self._call("neuron-as", source, "-o", neff)
        before = [np.pad(c.before, ((0, 0), (0, _width(c) - c.before.shape[1]))) for c in self.cases]
        np.save(Path(folder) / "before.npy", np.concatenate(before, axis=1))
        self._call("neuron-run", neff, "--input", f"before={folder}/before.npy", "--output", f"after={folder}/after.npy")
        after = np.load(Path(folder) / "after.npy").view(np.uint8)
        return [after[:, at:at + c.before.shape[1]] for at, c in zip(self.places, self.cases)]

    def _call(self, program, *arguments):
        environment = dict(os.environ, NEURON_EMULATOR=DEVICES[self.target], NEURON_LOGICAL_NC_CONFIG="1")
        done = subprocess.run([str(BUILD / "bin" / program), *map(str, arguments)], env=environment,
                              capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise Refused(f"{program}: {done.stderr.strip()[:1500]}")
