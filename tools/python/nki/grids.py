# SPDX-License-Identifier: Apache-2.0
"""The programs of kernel[n]: which physical core executes which, and whether they race.

The two programs of kernel[2] are executed by the two physical cores of a virtual core of trn2 or
trn3, at the same time; where they meet (core_barrier, sendrecv), both cores have the instruction.
Elsewhere, and for larger grids, the programs follow each other on one core: the values are those of
that order, the time is their sum. While they are traced, the Python of the two takes turns.
"""
import hashlib
import math
import threading
import warnings

import numpy as np

from .errors import NkiError, caller, place, refuse, shown
from .tensor import SBUF

_MOST_BYTES = 1 << 28  # Of a tensor whose bytes are followed
_WRITES = ("dst", "reduce_res")
_OTHER_RESULTS = ("val_dst", "idx_dst", "dst_idx", "dst_scale")  # Never in HBM
_DECLARATIONS = ("tile", "free", "hbm")
_RANDOM = ("dropout", "rng", "rand2", "rand_get_state")  # Each core has a state of its own


class RaceWarning(UserWarning):
    """Two programs of a grid may touch the same bytes, and nothing orders them."""


class _Stopped(BaseException):
    """Ends the Python of a program whose partner failed."""


class Pair:
    """Two programs whose Python takes turns: one runs until it has to wait for the other."""

    def __init__(self, recorder, function, programs):
        self.recorder, self.function, self.programs = recorder, function, programs
        self.turn = threading.Condition()
        self.running, self.ended, self.error = 0, [False, False], None
        self.results = [None, None]
        self.phase = [0, 0]
        self.here = [None, None]  # Where a program waits: what it is, the line, what it brought
        self.met = [None, None]  # The same of the other one, which has come

    def run(self):
        recorder = self.recorder
        recorder.pair = self
        threads = [threading.Thread(target=self._program, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorder.pair = None
        if self.error is not None:
            raise self.error
        return self.results

    def _program(self, number):
        with self.turn:
            self.turn.wait_for(lambda: self.running == number)
            try:
                if self.error is None:
                    with self.recorder.in_this_thread():
                        self.recorder.begin(self.programs[number], number, 0)
                        self.results[number] = self.function()
            except _Stopped:
                pass
            except BaseException as error:
                self.error = error
            self.ended[number] = True
            self.running = 1 - number
            self.turn.notify_all()

    def _let_other_run(self, number):
        """Until it has come to where this program waits. Called with the turn."""
        self.running = 1 - number
        self.turn.notify_all()
        self.turn.wait_for(lambda: self.running == number)
        if self.error is not None:
            raise _Stopped
        if self.met[number] is None:
            refuse(f"program {number} waits here, at {self.here[number][0]}, for program {1 - number}, "
                   f"which has ended without coming to it; the last that it did is at "
                   f"{self._last_place(1 - number)}")

    def _last_place(self, number):
        segments = self.recorder.segments + [(None, None, len(self.recorder.records))]
        for (whose, _, first), (_, _, end) in reversed(list(zip(segments, segments[1:]))):
            for record in reversed(self.recorder.records[first:end] if whose == number else []):
                if record["op"] != "free":
                    return _place(self.recorder, record["at"])
        return "no line: it did nothing"

    def meet(self, what, brought=None):
        """Waits until both programs are at such a call. What the other one brought, and whether this
        one came second: that goes on first."""
        number, line = self.running, caller()
        other = self.here[1 - number]
        self.phase[number] += 1
        if other is None:
            self.here[number] = what, line, brought
            self._let_other_run(number)
            _, _, theirs = self.met[number]
            self.met[number] = None
        else:
            if other[0] != what:
                refuse(f"program {number} is at {what} here, and program {1 - number} at {other[0]} at "
                       f"{place(other[1])}; both must come to the same calls of these in the same order")
            self.here[1 - number], self.met[1 - number] = None, (what, line, brought)
            theirs = other[2]
        self.recorder.begin(self.programs[number], number, self.phase[number])
        return theirs, other is not None

    def barrier(self, engine):
        mine = self.recorder.emit("core_barrier", engine=engine)
        theirs, second = self.meet("core_barrier", mine)
        if second and mine.get("engine") != theirs.get("engine"):
            refuse(f"program {self.running} waits on engine {mine.get('engine', 'gpsimd')}, program "
                   f"{1 - self.running} at {_place(self.recorder, theirs['at'])} on "
                   f"{theirs.get('engine', 'gpsimd')}; both wait on the same one")

    def exchange(self, src, dst):
        """Each program's dst becomes the other's src."""
        mine = self.recorder.emit("sendrecv", dst=self.recorder.operand(dst, "dst", write=True),
                                  src=self.recorder.operand(src, "src"))
        theirs, second = self.meet("sendrecv", mine)
        if not second:
            return
        self.recorder.exchanges.append((theirs, mine))
        if _sent(mine) != _sent(theirs):
            refuse(f"program {self.running} sends [%d, %d] of %s here, program {1 - self.running} sends "
                   "[%d, %d] of %s" % (_sent(mine) + _sent(theirs)) +
                   f" at {_place(self.recorder, theirs['at'])}; expected tiles of one shape and type")


def _sent(record):
    """Partitions, elements of each, and type of what a sendrecv sends."""
    source = record["src"]
    return source["parts"], math.prod(count for _, count in source["pattern"]), source["dtype"]


def run(recorder, function, programs):
    """The results of the programs of a grid."""
    if len(programs) == 2:
        return Pair(recorder, function, programs).run()
    results = []
    for number, program in enumerate(programs):
        recorder.begin(program, number, 0)
        results.append(function())
    return results


def barrier(engine):
    from .recorder import current
    recorder = current()
    if recorder.pair is not None:
        recorder.pair.barrier(engine)
    elif len(recorder.grid) and np.prod(recorder.grid) > 1:
        refuse("core_barrier is for the two programs of kernel[2]")


def exchange(src, dst):
    from .recorder import current
    recorder = current()
    if recorder.pair is None:
        refuse("sendrecv is between the two programs of kernel[2]")
    if src.storage.space != SBUF or dst.storage.space != SBUF:
        refuse(f"sendrecv moves tiles of SBUF, found {src!r} to {dst!r}")
    recorder.pair.exchange(src, dst)


def settle(recorder, physical_cores):
    """Finds races, and gives the second program to the second core where there is one."""
    programs = _by_program(recorder)
    for record in recorder.twice:
        recorder.remove(record)
    segments = recorder.segments + [(None, None, len(recorder.records))]
    phases = {}
    for (number, phase, first), (_, _, end) in zip(segments, segments[1:]):
        phases.setdefault(phase, {}).setdefault(number, []).extend(recorder.records[first:end])
    kinds = {r["id"]: r for r in recorder.records if r["op"] == "hbm"}
    several = len({number for number, _, _ in segments[:-1]}) > 1
    histories = _histories(recorder, segments) if several else {}
    found = {phase: [_accesses(records, histories) for _, records in sorted(programs.items())]
             for phase, programs in phases.items()}
    for accesses in found.values():
        for identity, record in kinds.items():
            _check_tensor(recorder, record, [a.get(identity, []) for a in accesses])
    # A program without a part of the work, such as the second one of a single tile, needs no core.
    if sum(any(r["op"] not in _DECLARATIONS for r in records) for records in programs.values()) < 2:
        return
    why = _one_core(recorder, programs, physical_cores)
    if why is None:
        _on_two_cores(recorder, programs, kinds)
        return
    recorder.notes.append(f"the {len(programs)} programs of the grid take turns on one core: the time "
                          f"is their sum, because {why}")
    if len(phases) != 1:
        _in_turns(recorder)


def _one_core(recorder, programs, physical_cores):
    """Why the programs of a grid take turns; None if two of them have a core each."""
    if len(programs) != 2:
        return "a virtual core has no more than two physical cores, which are for kernel[2]"
    if recorder.generation < 3:
        return f"a virtual core of {recorder.target} has one physical core"
    if physical_cores != 2:
        return "with NEURON_LOGICAL_NC_CONFIG=1 a virtual core has one physical core"
    if any(r["op"] == "collective" for r in recorder.records):
        return "ranks meet in the order of one core"
    return None


def _by_program(recorder):
    """The records of each program, in order. A tile ends with the program that made it."""
    segments = recorder.segments + [(None, None, len(recorder.records))]
    programs, makers = {}, {}
    for (number, _, first), (_, _, end) in zip(segments, segments[1:]):
        programs.setdefault(number, [])
        for record in recorder.records[first:end]:
            if record["op"] == "tile":
                makers[record["id"]] = number
            whose = makers.get(record["id"], number) if record["op"] == "free" else number
            programs[whose].append(record)
    return programs


def _on_two_cores(recorder, programs, kinds):
    """The trace of two programs: what both reach, the first program, the second one."""
    users, written = {}, set()
    for number, records in programs.items():
        for record in records:
            for operand, writes in _operands(record):
                users.setdefault(operand["hbm"], set()).add(number)
                if writes:
                    written.add(operand["hbm"])
    own, both = {0: [], 1: []}, []
    for identity, record in kinds.items():
        mine = users.get(identity, {0, 1})
        if record["kind"] in ("temporary", "constant") and len(mine) == 1:
            own[min(mine)].append(record)
            continue
        if record["kind"] == "temporary":
            record["shared"] = True
        both.append(record)
    shared = [{"hbm": r["id"], "dtype": r["dtype"], "pattern": [[1, math.prod(r["shape"])]]}
              for r in both if r["id"] in written and len(users[r["id"]]) == 2]
    # A copy of bytes onto themselves changes nothing, and would read what the other core writes.
    left_out = {id(r) for r in recorder.records if _to_itself(r) and r["dst"].get("hbm") in {t["hbm"] for t in shared}}
    recorder.in_time = [r for r in recorder.records if id(r) not in left_out]
    recorder.records = both
    for number, records in sorted(programs.items()):
        if number == 1:
            recorder.records.append({"op": "core", "number": 1})
        recorder.records += own[number]
        for record in records:
            if record["op"] == "core_barrier" and shared:
                record["data"] = shared
            if record["op"] != "hbm" and id(record) not in left_out:
                recorder.records.append(record)
    recorder.both_cores = True


def _in_turns(recorder):
    """The trace of two programs that meet, on one core: what they exchange is copied."""
    first_of = {id(second): first for first, second in recorder.exchanges}
    firsts = {id(first) for first, _ in recorder.exchanges}
    records = []
    for record in recorder.records:
        if id(record) in first_of:
            records += _copies(recorder, first_of[id(record)], record)
        elif record["op"] != "core_barrier" and id(record) not in firsts:
            # Places that a kernel chose are those of a core of its own.
            record.pop("address", None)
            records.append(record)
    recorder.records = records
    recorder.end_tiles_with_last_use()


def _copies(recorder, first, second):
    """What stands for a sendrecv of both programs."""
    source, identity = second["src"], recorder.storages
    recorder.storages += 1
    parts, columns, dtype = _sent(second)
    step, pattern = columns, []
    for _, count in source["pattern"]:
        step //= count
        pattern.append([step, count])
    staged = {"tile": identity, "dtype": dtype, "start": 0, "parts": parts, "offset": 0, "pattern": pattern}
    yield {"op": "tile", "id": identity, "at": second["at"], "space": SBUF, "name": "exchanged",
           "parts": parts, "columns": columns, "dtype": dtype}
    for to, what in ((staged, source), (second["dst"], first["src"]), (first["dst"], staged)):
        yield {"op": "dma_copy", "at": second["at"], "dst": to, "src": what}
    yield {"op": "free", "id": identity}


def _to_itself(record):
    return record["op"] == "dma_copy" and record["dst"] == record["src"]


def _operands(record):
    for key, value in record.items():
        for operand in value if isinstance(value, list) else [value]:
            if isinstance(operand, dict) and "hbm" in operand:
                yield operand, key in _WRITES


def _histories(recorder, segments):
    """By record: a digest of what led to the values that it writes. Equal digests of two programs
    mean equal values; others say nothing."""
    found, tiles, tensors, sent = {}, {}, {}, {}
    first_of = {id(second): first for first, second in recorder.exchanges}
    firsts = {id(first) for first, _ in recorder.exchanges}
    placed = {r["id"] for r in recorder.records if r["op"] == "tile" and "address" in r}
    numbers = [number for (number, _, first), (_, _, end) in zip(segments, segments[1:])
               for _ in range(first, end)]
    loops = []  # By program: what is around the record. Programs may go through a loop together
    for at, number in enumerate(numbers, segments[0][2]):
        record, mine = recorder.records[at], tensors.setdefault(number, {})
        if record["op"] == "while":
            # A value of a later round may depend on anything in the body.
            body = {}
            for place in _body(recorder.records, at):
                whose = numbers[place - segments[0][2]]
                seen, names = body.setdefault(whose, ([], {}))
                seen.append(_seen(recorder.records[place], tiles, tensors.setdefault(whose, {}), placed,
                                  names))
            # What the programs exchange in it makes the body of each a part of the other's.
            exchanging = any(recorder.records[place]["op"] == "sendrecv" for place in _body(recorder.records, at))
            loops.append({whose: _digest([seen] + [others for other, (others, _) in body.items()
                                                   if exchanging and other != whose])
                          for whose, (seen, _) in body.items()})
        elif record["op"] == "end_while":
            loops.pop()
        elif id(record) in firsts:
            sent[id(record)] = _seen(record["src"], tiles, mine, placed)
        elif id(record) in first_of:
            # Each has what the other sent.
            other = first_of[id(record)]
            sent[id(record)] = _seen(record["src"], tiles, mine, placed)
            for one, theirs, whose in ((record, other, number), (other, record, 1 - number)):
                kept, into = tensors.setdefault(whose, {}), one["dst"]["tile"]
                tiles[into] = digest = _digest([_seen(one["dst"], tiles, kept, placed), sent[id(theirs)],
                                                [loop.get(whose) for loop in loops]])
                if into in placed:
                    kept["placed"] = digest
        elif record["op"] not in _DECLARATIONS and not _to_itself(record):
            parts = [_seen(record, tiles, mine, placed), [loop.get(number) for loop in loops]]
            if record["op"] in _RANDOM:
                parts.append(number)
            found[id(record)] = digest = _digest(parts)
            for key in _WRITES + _OTHER_RESULTS:
                operand = record.get(key)
                if isinstance(operand, dict):
                    kept, name = (mine, operand["hbm"]) if "hbm" in operand else (tiles, operand["tile"])
                    kept[name] = digest
                    if name in placed and kept is tiles:
                        mine["placed"] = digest  # Tiles that a kernel places may overlap
    return found


def _body(records, at):
    """Where the records of the loop are that begins there, without those of memory."""
    depth = 0
    for place in range(at, len(records)):
        depth += (records[place]["op"] == "while") - (records[place]["op"] == "end_while")
        if depth == 0:
            return
        if records[place]["op"] not in _DECLARATIONS:
            yield place


def _seen(value, tiles, tensors, placed, names=None):
    """A record with the history of each operand's memory in place of its identifier. `names`, if
    given, numbers the tiles by their first use."""
    if isinstance(value, list):
        return [_seen(v, tiles, tensors, placed, names) for v in value]
    if not isinstance(value, dict):
        return value
    seen = {k: _seen(v, tiles, tensors, placed, names) for k, v in value.items() if k != "tile"}
    if names is not None and "tile" in value:
        seen["name"] = names.setdefault(value["tile"], len(names))
    if "hbm" in value:
        seen["history"] = tensors.get(value["hbm"])
    elif "tile" in value:
        seen["history"] = [tiles.get(value["tile"]), value["tile"] in placed and tensors.get("placed")]
    return seen


def _digest(value):
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _accesses(program, histories):
    """By tensor: (op, operand, writes, position, bytes of a row that an index chooses, history)."""
    from .dtypes import SIZES
    found = {}
    for record in program:
        if record["op"] in _DECLARATIONS:
            continue
        for operand, writes in _operands(record):
            if _to_itself(record) and not writes:
                continue  # Of a copy of bytes onto themselves, what it writes is what counts
            # By an index: which columns it reaches is known, which rows is not.
            indexed = record["op"] in ("dma_gather", "dma_scatter")
            row = record["row_elements"] * SIZES[operand["dtype"]] if indexed else None
            found.setdefault(operand["hbm"], []).append(
                (record["op"], operand, writes, record["at"], row, histories.get(id(record))))
    return found


def _check_tensor(recorder, record, programs):
    """Refuses bytes that one program writes and another touches: nothing orders them."""
    if sum(bool(p) for p in programs) < 2 or not any(a[2] for p in programs for a in p):
        return
    _warn_of_indices(recorder, record, programs)
    size = recorder.sizes[record["id"]]
    if size > _MOST_BYTES:
        return
    writer, reader = np.zeros(size, np.int32), np.zeros(size, np.int32)
    notes = [None]
    for number, accesses in enumerate(programs):
        mine = len(notes)
        for _, operand, writes, at, row, history in accesses:
            if row is not None:
                continue  # Which rows it reaches, the device decides
            notes.append((number, at, history))
            for mask in (writer, reader) if writes else (writer,):
                view = _bytes(mask, operand)
                other = view[(view > 0) & (view < mine)]
                if other.size:
                    _race(recorder, record, notes[int(other[0])], notes[-1], writes, mask is writer)
            for mask in (writer,) if writes else (reader,):
                _bytes(mask, operand)[...] = len(notes) - 1


def _warn_of_indices(recorder, record, programs):
    """Which rows an index reaches, only the device knows: no error, but nobody should miss it."""
    for number, accesses in enumerate(programs):
        for _, operand, writes, at, row, _ in accesses:
            if row is None:
                continue
            mine = _columns(operand, row)
            other = next(((n, o[3]) for n, others in enumerate(programs) if n != number
                          for o in others if (writes or o[2]) and (o[4] is None or not writes)
                          and np.any(mine & _columns(o[1], row))), None)
            if other is None:
                continue
            text = (f"{_place(recorder, at)}: program {number} {'writes' if writes else 'reads'} rows of "
                    f"\"{record['name']}\" by an index, program {other[0]} touches it at "
                    f"{_place(recorder, other[1])}, and nothing orders them: if these are the same bytes, "
                    "this is a race; a core_barrier between them would decide it")
            recorder.notes.append(text)
            warnings.warn(text, RaceWarning, stacklevel=1)
            return


def _columns(operand, row):
    """Which bytes of a row of `row` bytes the operand touches, in whatever rows."""
    from .dtypes import SIZES
    width = SIZES[operand["dtype"]]
    places = np.zeros(1, np.int64)
    for step, count in operand["pattern"]:
        steps = np.arange(count, dtype=np.int64) * (step * width)
        places = np.unique((places[:, None] + steps) % row)
    mask = np.zeros(row, bool)
    for byte in range(width):
        mask[(places + operand.get("offset", 0) + byte) % row] = True
    return mask


def _place(recorder, at):
    return f"{shown(list(recorder.files)[at[0]])}:{at[1]}"


def _bytes(mask, operand):
    from .dtypes import SIZES
    width = SIZES[operand["dtype"]]
    shape = [count for _, count in operand["pattern"]] + [width]
    strides = [step * width * 4 for step, _ in operand["pattern"]] + [4]
    return np.ndarray(shape, np.int32, mask, operand.get("offset", 0) * 4, strides)


def _race(recorder, record, first, second, writes, other_writes):
    def place(note):
        return _place(recorder, note[1])

    if writes and other_writes and first[1] == second[1]:
        text = f"{place(second)}: both programs write the same bytes of \"{record['name']}\""
        if first[2] == second[2]:
            recorder.notes.append(f"{text}, each the same values")
            return
        text += (", and nothing orders them: unless their values are equal, this is a race, and "
                 "which of them stay is left to chance; give each program a part of its own, or let "
                 "one of them write")
        if text not in recorder.notes:
            recorder.notes.append(text)
            warnings.warn(text, RaceWarning, stacklevel=1)
        return
    raise NkiError(
        f"{place(second)}: RACE: program {second[0]} {'writes' if writes else 'reads'} bytes of "
        f"\"{record['name']}\" that program {first[0]} {'writes' if other_writes else 'reads'} at "
        f"{place(first)}, and nothing orders the programs of a grid; give each a part of its own")


