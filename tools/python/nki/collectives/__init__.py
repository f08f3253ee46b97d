# SPDX-License-Identifier: Apache-2.0
"""nki.collectives: operations between ranks, executed by the collective cores of the chip.

A kernel that is called alone is one rank, and its collectives are copies. kernel.ranks([arguments of
rank 0, arguments of rank 1, ...]) executes one program for each rank at the same time.
"""
from enum import Enum

from ..errors import refuse
from ..isa.types import alu, dst as to, src as source
from ..language.constants import NKIObject
from ..recorder import current


class rg_partition_op(Enum):
    """How ranks are put into groups: those with the same op(rank, operand)."""
    div = "div"
    mod = "mod"
    bitwise_and = "bitwise_and"


class ReplicaGroup(NKIObject):
    """The ranks that take part: lists of ranks of one length, each of which works by itself."""

    def __init__(self, groups=None):
        self.groups = [[int(r) for r in group] for group in groups or []]

    @staticmethod
    def from_partition_op(world_size, op, operand):
        key = {"div": lambda r: r // operand, "mod": lambda r: r % operand,
               "bitwise_and": lambda r: r & operand}[getattr(op, "value", op)]
        groups = {}
        for rank in range(world_size):
            groups.setdefault(key(rank), []).append(rank)
        return ReplicaGroup(list(groups.values()))


def _groups(replica_group):
    """The lists of ranks, and the one of this rank."""
    recorder = current()
    groups = getattr(replica_group, "groups", replica_group) or [list(range(recorder.ranks))]
    members = [rank for group in groups for rank in group]
    if len({len(group) for group in groups}) != 1 or len(set(members)) != len(members):
        refuse(f"replica_group = {groups}; expected lists of one length, each rank at most once")
    if recorder.ranks == 1 and len(groups[0]) == 1:
        return [[0]], [0]  # Whatever its number is
    if sorted(members) != list(range(recorder.ranks)):
        refuse(f"replica_group = {groups}, and this call has {recorder.ranks} rank"
               f"{'s' * (recorder.ranks > 1)}; kernel.ranks([...]) executes a kernel with several")
    return groups, next(group for group in groups if recorder.rank in group)


def _each(operation, srcs, dsts, replica_group, expected, **fields):
    """One record for each pair of tensors; `expected(elements, ranks)` are those of the destination."""
    groups, mine = _groups(replica_group)
    if len(srcs) != len(dsts) or not srcs:
        refuse(f"{operation} of {len(srcs)} tensors to {len(dsts)}; expected as many, at least one")
    if len({t.on_chip for t in (*srcs, *dsts)}) != 1 or srcs[0].on_chip and len(srcs) != 1:
        refuse(f"{operation}: all tensors are in HBM, or one source and one destination in SBUF")
    for src, dst in zip(srcs, dsts):
        wanted = expected(src.size, len(mine))
        if dst.size != wanted or src.dtype != dst.dtype:
            refuse(f"{operation} of {src!r} to {dst!r} among {len(mine)} ranks: expected {wanted:g} "
                   "elements of the same type")
        if current().ranks == 1:
            from ..isa import dma_copy
            dma_copy(dst, src)
            continue
        current().emit("collective", operation=operation, dst=to(dst), src=source(src, "src"),
                       members=[rank for group in groups for rank in group], group_size=len(mine),
                       **fields)


def all_reduce(srcs, dsts, replica_group, op, priority=None, name=None):
    """dst = the src of all ranks of the group, combined with nl.add, nl.maximum or nl.minimum."""
    _each("all_reduce", srcs, dsts, replica_group, lambda n, ranks: n, alu=alu(op))


def all_gather(srcs, dsts, replica_group, collective_dim, priority=None, name=None):
    """dst = the srcs of all ranks of the group, one behind the other along `collective_dim`."""
    for src, dst in zip(srcs, dsts):
        most = 1 if src.on_chip else 0
        if not 0 <= collective_dim <= most or dst.ndim != src.ndim or src.on_chip and src.ndim != 2:
            refuse(f"all_gather along dimension {collective_dim} of {src!r} to {dst!r}; expected "
                   "dimension 0, or 1 of tiles of two dimensions")
        _one_dimension("all_gather", src, dst, collective_dim)
    _each("all_gather", srcs, dsts, replica_group, lambda n, ranks: n * ranks)


def _one_dimension(operation, small, large, dim):
    if any(a != b for d, (a, b) in enumerate(zip(small.shape, large.shape)) if d != dim):
        refuse(f"{operation} between {small!r} and {large!r}: they differ in more than dimension {dim}")


def reduce_scatter(srcs, dsts, replica_group, collective_dim, op, priority=None, name=None):
    """dst = this rank's part, along dimension 0, of the src of all ranks combined."""
    if collective_dim != 0:
        refuse(f"reduce_scatter along dimension {collective_dim}; expected 0")
    _each("reduce_scatter", srcs, dsts, replica_group, lambda n, ranks: n / ranks, alu=alu(op))


def all_to_all(srcs, dsts, replica_group, collective_dim=0, priority=None, name=None):
    """Part i of src, along dimension 0, goes to rank i of the group. Tensors in HBM."""
    if collective_dim != 0 or any(t.on_chip for t in (*srcs, *dsts)):
        refuse("all_to_all is along dimension 0 of tensors in HBM")
    _each("all_to_all", srcs, dsts, replica_group, lambda n, ranks: n)


def collective_permute(srcs, dsts, source_target_pairs, priority=None, name=None):
    """dst of each target = src of its source; a dst that no pair names stays."""
    pairs = [(int(a), int(b)) for a, b in source_target_pairs]
    if len({b for _, b in pairs}) != len(pairs) or len({a for a, _ in pairs}) != len(pairs):
        refuse(f"source_target_pairs = {pairs}; each rank sends at most once, and receives so")
    if current().ranks == 1 and pairs not in ([], [(0, 0)]):
        refuse(f"source_target_pairs = {pairs}, and this call has one rank; kernel.ranks([...]) executes "
               "a kernel with several")
    _each("collective_permute", srcs, dsts, None, lambda n, ranks: n,
          pairs=[rank for pair in pairs for rank in pair])


def collective_permute_implicit(srcs_by_channel, dsts_by_channel, replica_group, channel_ids=None,
                                priority=None, name=None):
    """Each rank sends to its successor in the ring of its group, each channel its own tensors."""
    groups, _ = _groups(replica_group)
    ring = [(group[i], group[(i + 1) % len(group)]) for group in groups for i in range(len(group))]
    for srcs, dsts in zip(srcs_by_channel, dsts_by_channel):
        for src, dst in zip(srcs, dsts):
            _each("collective_permute", [src], [dst], None, lambda n, ranks: n,
                  pairs=[rank for pair in ring for rank in pair])


def rank_id():
    """A register with the number of this rank."""
    from ..isa.control import VirtualRegister
    return VirtualRegister(current().rank)


def collective_permute_implicit_current_processing_rank_id(iteration_id, channel_id=0,
                                                           replica_group=None):
    """A register with the rank whose data is here behind so many permutes: 0 of them, this rank."""
    from ..isa.control import VirtualRegister
    _, mine = _groups(replica_group)
    return VirtualRegister(mine[(mine.index(current().rank) - int(iteration_id)) % len(mine)])


def _refusal(name):
    def call(*unused, **also_unused):
        refuse(f"nki.collectives.{name} is not available: lengths that differ between ranks, and "
               "permutes that reduce, are not lowered")

    call.__name__ = name
    return call


for _name in ("all_to_all_v", "all_gather_v", "collective_permute_implicit_reduce"):
    globals()[_name] = _refusal(_name)
