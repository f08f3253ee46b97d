// SPDX-License-Identifier: Apache-2.0
// Where the blocks of a request lie in the buffers of a rank, in bytes.
//
// In place, input and output share bytes. A schedule then names them by the larger buffer of the
// two: the output, except for reduce-scatter and the root of a scatter, where it is the input. So
// equal slices mean the same bytes. Callers: algorithms of plan/, the checker. Thread-safe: a value
// that refers to its request. Cannot fail: the planner validates requests first.
#ifndef CCOM_REQUEST_LAYOUT_H
#define CCOM_REQUEST_LAYOUT_H

#include "ccom/request/request.h"
#include "ccom/schedule/step.h"

namespace neuron::ccom {

class Layout {
 public:
  Layout(const Request& request, uint32_t ranks);

  uint32_t ranks() const { return ranks_; }
  uint32_t width() const { return width_; }  // bytes of an element
  bool in_place() const { return request_->in_place; }

  // The block of a rank in the buffer that has one per rank.
  uint64_t elements(Rank rank) const;
  uint64_t displacement(Rank rank) const;  // elements
  uint64_t bytes(Rank rank) const { return elements(rank) * width_; }
  uint64_t offset(Rank rank) const { return displacement(rank) * width_; }
  // All-to-all: how many bytes `from` sends to `to`, and where they lie.
  uint64_t pair_bytes(Rank from, Rank to) const;
  uint64_t send_offset(Rank from, Rank to) const;
  uint64_t receive_offset(Rank to, Rank from) const;

  // Byte `offset` of the input or output of a rank.
  Slice input(Rank rank, uint64_t offset) const;
  Slice output(Rank rank, uint64_t offset) const;
  uint64_t input_bytes(Rank rank) const;
  uint64_t output_bytes(Rank rank) const;
  // Bytes of the reduced vector; 0 for operations that do not reduce.
  uint64_t vector_bytes() const;
  // Bytes that bandwidths of the operation are counted by: the vector, or the blocks of all ranks.
  uint64_t whole_bytes() const;

 private:
  const Request* request_;
  uint32_t ranks_;
  uint32_t width_;
};

uint32_t element_bytes(ccom_type_t type);
bool reduces(ccom_operation_t operation);
// Whether all ranks have equal parts of the work: no root, and blocks of one size.
bool even_blocks(const Request& request);

}  // namespace neuron::ccom

#endif
