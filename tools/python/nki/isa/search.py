# SPDX-License-Identifier: Apache-2.0
"""Instructions that look for elements, or move them by index, mask or pattern."""
import operator

from ..errors import refuse
from .types import alu, dst as to, record, scalar, src as source

__all__ = ["iota", "affine_select", "tensor_partition_reduce", "local_gather", "nc_n_gather",
           "sequence_bounds", "max8", "nc_find_index8", "nc_match_replace8", "nc_stream_shuffle",
           "topk", "nonzero_with_count"]


def _pattern(pattern):
    return [int(value) for pair in pattern for value in pair]


def iota(dst, pattern, offset=0, channel_multiplier=0, name=None):
    """dst = offset + partition * channel_multiplier + the sum of step * index. GpSimd."""
    return record("iota", dst=to(dst), index=_pattern(pattern), offset=operator.index(offset),
                  channel_multiplier=operator.index(channel_multiplier))


def affine_select(dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op="equal",
                  offset=0, name=None):
    """dst = on_true_tile where iota's value cmp_op 0, else on_false_value. GpSimd."""
    return record("affine_select", dst=to(dst), index=_pattern(pattern),
                  offset=operator.index(offset),
                  channel_multiplier=operator.index(channel_multiplier),
                  on_true=source(on_true_tile, "on_true_tile"),
                  on_false=scalar(on_false_value, "on_false_value"), compare=alu(cmp_op, "cmp_op"))


def tensor_partition_reduce(dst, op, data, name=None):
    """dst[1, n] = data reduced over the partitions. GpSimd, slow."""
    return record("tensor_partition_reduce", dst=to(dst), alu=alu(op), data=source(data, "data"))


def local_gather(dst, src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, name=None):
    """Gathers along the free dimension, the same indices for 16 partitions. GpSimd."""
    return record("local_gather", dst=to(dst), src_buffer=source(src_buffer, "src_buffer"),
                  index=source(index, "index"), num_elem_per_idx=int(num_elem_per_idx),
                  num_valid_indices=None if num_valid_indices is None else int(num_valid_indices))


def nc_n_gather(dst, data, indices, name=None):
    """dst[p, i] = data[p, indices[p, i]]; indices are uint32. GpSimd."""
    return record("nc_n_gather", dst=to(dst), data=source(data, "data"),
                  indices=source(indices, "indices"))


def sequence_bounds(dst, segment_ids, name=None):
    """dst[1, 2, n] = start and end of the segment of each element."""
    return record("sequence_bounds", dst=to(dst), segment_ids=source(segment_ids, "segment_ids"))


def max8(dst, src, name=None):
    """dst[P, 8] = the eight largest elements of each partition, descending."""
    return record("max8", dst=to(dst), src=source(src, "src"))


def nc_find_index8(dst, data, vals, name=None):
    """dst[P, 8] = where in data the eight values first occur; all ones where they do not."""
    return record("nc_find_index8", dst=to(dst), data=source(data, "data"),
                  vals=source(vals, "vals"))


def nc_match_replace8(dst, data, vals, imm, dst_idx=None, name=None):
    """dst = data with the first occurrence of each of eight values replaced by imm."""
    return record("nc_match_replace8", dst=to(dst), data=source(data, "data"),
                  vals=source(vals, "vals"), imm=scalar(imm, "imm"),
                  dst_idx=None if dst_idx is None else to(dst_idx, "dst_idx"))


def nc_stream_shuffle(dst, src, shuffle_mask, name=None):
    """In each quadrant of 32 partitions, row i of dst = row shuffle_mask[i] of src; 255: it stays."""
    mask = [int(row) for row in shuffle_mask]
    if len(mask) != 32:
        refuse(f"shuffle_mask has {len(mask)} entries; expected 32")
    return record("nc_stream_shuffle", dst=to(dst), src=source(src, "src"), mask=mask)


def topk(val_dst, idx_dst, src, n, name=None):
    """The largest elements of 16 partitions at a time, ascending, and their numbers. GpSimd."""
    return record("topk", val_dst=to(val_dst, "val_dst"), idx_dst=to(idx_dst, "idx_dst"),
                  src=source(src, "src"), n=int(n),
                  k=16 * (val_dst.size // max(1, val_dst.shape[0])))


def nonzero_with_count(dst, src, index_offset=0, padding_val=-1, name=None):
    """dst[T + 1] = where src[T] is not 0, then padding, and as the last element how many. From trn2 on.

    Of every 16 partitions the first counts; the others of dst stay. float32 or int32, to int32. GpSimd.
    """
    return record("nonzero_with_count", dst=to(dst), src=source(src, "src"),
                  index_offset=operator.index(index_offset), padding_val=operator.index(padding_val))
