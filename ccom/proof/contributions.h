// SPDX-License-Identifier: Apache-2.0
// The symbolic contents of buffers while a schedule is checked: sums of contributions, by interval.
//
// Concepts: a term is a rank's contribution, or a reduction of terms in an order. Equal terms have
// equal numbers, so equal numbers mean equal bits. A Content is a term and a distance: byte `a` of
// a buffer holds byte `a + shift` of the contribution. Callers: the checker. Threads: one.
#ifndef CCOM_PROOF_CONTRIBUTIONS_H
#define CCOM_PROOF_CONTRIBUTIONS_H

#include <cstdint>
#include <map>
#include <vector>

#include "ccom/schedule/step.h"

namespace neuron::ccom {

class Terms {
 public:
  explicit Terms(uint32_t ranks);

  uint32_t rank(Rank rank) const { return rank; }
  // False: `twice` is a rank whose contribution two operands hold.
  bool reduce(const std::vector<uint32_t>& operands, uint32_t& result, Rank& twice);
  bool complete(uint32_t term) const;
  bool holds(uint32_t term, Rank rank) const;
  Rank missing(uint32_t term) const;  // a rank that the term lacks

 private:
  uint32_t ranks_;
  uint32_t words_;
  std::vector<std::vector<uint64_t>> sets_;  // by term
  std::map<std::vector<uint32_t>, uint32_t> known_;
};

struct Content {
  uint32_t term = 0;
  int64_t shift = 0;

  bool operator==(const Content&) const = default;
};

// The intervals of one buffer. Bytes that were never written have none.
class Contents {
 public:
  struct Run {
    uint64_t begin = 0;
    uint64_t end = 0;
    Content content;
  };

  void write(uint64_t begin, uint64_t end, const Content& content);
  // Runs of [begin, end), cut to it. False: `hole` is the first byte that no step wrote.
  bool read(uint64_t begin, uint64_t end, std::vector<Run>& runs, uint64_t& hole) const;
  const std::map<uint64_t, Run>& runs() const { return runs_; }

 private:
  std::map<uint64_t, Run> runs_;  // by begin; disjoint
};

}  // namespace neuron::ccom

#endif
