// SPDX-License-Identifier: Apache-2.0
#include "ccom/request/layout.h"

#include <algorithm>
#include <functional>

namespace neuron::ccom {

uint32_t element_bytes(ccom_type_t type) { return static_cast<uint32_t>(ccom_type_size(type)); }

bool reduces(ccom_operation_t operation) {
  return operation == CCOM_ALL_REDUCE || operation == CCOM_REDUCE_SCATTER ||
         operation == CCOM_REDUCE || operation == CCOM_REDUCE_SCATTER_V;
}

Layout::Layout(const Request& request, uint32_t ranks)
    : request_(&request), ranks_(ranks), width_(element_bytes(request.type)) {}

uint64_t Layout::elements(Rank rank) const {
  return request_->counts.empty() ? request_->count : request_->counts[rank];
}

uint64_t Layout::displacement(Rank rank) const {
  return request_->displacements.empty() ? rank * request_->count : request_->displacements[rank];
}

uint64_t Layout::pair_bytes(Rank from, Rank to) const {
  if (request_->operation != CCOM_ALL_TO_ALL_V) return request_->count * width_;
  return request_->send_counts[uint64_t{from} * ranks_ + to] * width_;
}

uint64_t Layout::send_offset(Rank from, Rank to) const {
  if (request_->operation != CCOM_ALL_TO_ALL_V) return to * request_->count * width_;
  return request_->send_displacements[uint64_t{from} * ranks_ + to] * width_;
}

uint64_t Layout::receive_offset(Rank to, Rank from) const {
  if (request_->operation != CCOM_ALL_TO_ALL_V) return from * request_->count * width_;
  return request_->receive_displacements[uint64_t{to} * ranks_ + from] * width_;
}

Slice Layout::input(Rank rank, uint64_t offset) const {
  if (!request_->in_place) return {Buffer::kInput, offset};
  switch (request_->operation) {
    case CCOM_REDUCE_SCATTER:
    case CCOM_REDUCE_SCATTER_V:
    case CCOM_SCATTER:
      return {Buffer::kInput, offset};
    case CCOM_ALL_GATHER:
    case CCOM_ALL_GATHER_V:
      return {Buffer::kOutput, this->offset(rank) + offset};
    case CCOM_GATHER:
      if (rank != request_->root) return {Buffer::kInput, offset};
      return {Buffer::kOutput, this->offset(rank) + offset};
    case CCOM_REDUCE:
      return {rank == request_->root ? Buffer::kOutput : Buffer::kInput, offset};
    default:
      return {Buffer::kOutput, offset};
  }
}

Slice Layout::output(Rank rank, uint64_t offset) const {
  if (!request_->in_place) return {Buffer::kOutput, offset};
  switch (request_->operation) {
    case CCOM_REDUCE_SCATTER:
    case CCOM_REDUCE_SCATTER_V:
      return {Buffer::kInput, this->offset(rank) + offset};
    case CCOM_SCATTER:
      if (rank != request_->root) return {Buffer::kOutput, offset};
      return {Buffer::kInput, this->offset(rank) + offset};
    default:
      return {Buffer::kOutput, offset};
  }
}

namespace {

// The end of the last block in memory.
template <class Size, class Offset>
uint64_t extent(uint32_t ranks, Size size, Offset offset) {
  uint64_t end = 0;
  for (Rank i = 0; i < ranks; ++i) {
    if (size(i) != 0) end = std::max<uint64_t>(end, offset(i) + size(i));
  }
  return end;
}

}  // namespace

uint64_t Layout::input_bytes(Rank rank) const {
  const uint64_t block = request_->count * width_;
  switch (request_->operation) {
    case CCOM_ALL_REDUCE:
    case CCOM_ALL_GATHER:
    case CCOM_REDUCE:
    case CCOM_GATHER:
      return block;
    case CCOM_BROADCAST:
      return rank == request_->root ? block : 0;
    case CCOM_REDUCE_SCATTER:
    case CCOM_ALL_TO_ALL:
      return ranks_ * block;
    case CCOM_SCATTER:
      return rank == request_->root ? ranks_ * block : 0;
    case CCOM_SEND_RECEIVE:
    case CCOM_PERMUTE:
      for (const ccom_pair_t& pair : request_->pairs) {
        if (pair.source == rank) return block;
      }
      return 0;
    case CCOM_ALL_GATHER_V:
      return bytes(rank);
    case CCOM_REDUCE_SCATTER_V:
      return vector_bytes();
    case CCOM_ALL_TO_ALL_V:
      return extent(
          ranks_, [&](Rank to) { return pair_bytes(rank, to); },
          [&](Rank to) { return send_offset(rank, to); });
    default:
      return 0;
  }
}

uint64_t Layout::output_bytes(Rank rank) const {
  const uint64_t block = request_->count * width_;
  switch (request_->operation) {
    case CCOM_ALL_REDUCE:
    case CCOM_BROADCAST:
    case CCOM_REDUCE_SCATTER:
    case CCOM_SCATTER:
      return block;
    case CCOM_ALL_GATHER:
    case CCOM_ALL_TO_ALL:
      return ranks_ * block;
    case CCOM_REDUCE:
      return rank == request_->root ? block : 0;
    case CCOM_GATHER:
      return rank == request_->root ? ranks_ * block : 0;
    case CCOM_SEND_RECEIVE:
    case CCOM_PERMUTE:
      for (const ccom_pair_t& pair : request_->pairs) {
        if (pair.target == rank) return block;
      }
      return 0;
    case CCOM_ALL_GATHER_V:
      return extent(
          ranks_, [&](Rank i) { return bytes(i); }, [&](Rank i) { return offset(i); });
    case CCOM_REDUCE_SCATTER_V:
      return bytes(rank);
    case CCOM_ALL_TO_ALL_V:
      return extent(
          ranks_, [&](Rank from) { return pair_bytes(from, rank); },
          [&](Rank from) { return receive_offset(rank, from); });
    default:
      return 0;
  }
}

uint64_t Layout::vector_bytes() const {
  switch (request_->operation) {
    case CCOM_ALL_REDUCE:
    case CCOM_REDUCE:
      return request_->count * width_;
    case CCOM_REDUCE_SCATTER:
      return ranks_ * request_->count * width_;
    case CCOM_REDUCE_SCATTER_V:
      return extent(
          ranks_, [&](Rank i) { return bytes(i); }, [&](Rank i) { return offset(i); });
    default:
      return 0;
  }
}

uint64_t Layout::whole_bytes() const {
  uint64_t sum = 0;
  switch (request_->operation) {
    case CCOM_BARRIER:
      return 0;
    case CCOM_ALL_GATHER:
    case CCOM_REDUCE_SCATTER:
    case CCOM_ALL_TO_ALL:
    case CCOM_GATHER:
    case CCOM_SCATTER:
      return ranks_ * request_->count * width_;
    case CCOM_ALL_GATHER_V:
    case CCOM_REDUCE_SCATTER_V:
      for (Rank r = 0; r < ranks_; ++r) sum += bytes(r);
      return sum;
    case CCOM_ALL_TO_ALL_V: {
      // The rank that sends most.
      uint64_t most = 0;
      for (Rank from = 0; from < ranks_; ++from) {
        sum = 0;
        for (Rank to = 0; to < ranks_; ++to) sum += pair_bytes(from, to);
        most = std::max(most, sum);
      }
      return most;
    }
    default:
      return request_->count * width_;
  }
}

bool even_blocks(const Request& request) {
  switch (request.operation) {
    case CCOM_ALL_REDUCE:
    case CCOM_ALL_GATHER:
    case CCOM_REDUCE_SCATTER:
    case CCOM_ALL_TO_ALL:
    case CCOM_BARRIER:
      return true;
    case CCOM_ALL_GATHER_V:
    case CCOM_REDUCE_SCATTER_V:
      return std::adjacent_find(request.counts.begin(), request.counts.end(),
                                std::not_equal_to<>()) == request.counts.end();
    default:
      return false;
  }
}

}  // namespace neuron::ccom
