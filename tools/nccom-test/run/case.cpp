// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/case.h"

#include <algorithm>
#include <numeric>

#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::Result;

namespace {

uint64_t divided_up(uint64_t value, uint64_t by) { return by == 0 ? 0 : (value + by - 1) / by; }

std::vector<uint64_t> running_sum(const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> result(counts.size());
  for (size_t i = 1; i < counts.size(); ++i) result[i] = result[i - 1] + counts[i - 1];
  return result;
}

uint64_t extent(const std::vector<uint64_t>& counts, const std::vector<uint64_t>& displacements) {
  uint64_t end = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) end = std::max(end, displacements[i] + counts[i]);
  }
  return end;
}

// Shares of a total that differ from rank to rank: 1, 2, 3, ... parts.
std::vector<uint64_t> uneven(uint64_t total, uint32_t ranks) {
  std::vector<uint64_t> counts(ranks);
  const uint64_t parts = uint64_t{ranks} * (ranks + 1) / 2;
  for (uint32_t i = 0; i < ranks; ++i) counts[i] = divided_up(total * (i + 1), parts);
  return counts;
}

const VariableEntry& entry_of(const std::vector<VariableEntry>& metadata, uint32_t place) {
  return metadata[metadata.size() == 1 ? 0 : place];
}

Result<void> by_rank(Work& work, const BlockOptions& options, uint64_t elements) {
  if (options.metadata.empty()) {
    work.counts = uneven(elements, work.ranks);
    work.displacements = running_sum(work.counts);
    return {};
  }
  const VariableEntry& first = options.metadata.front();
  const bool gather = work.operation == CCOM_ALL_GATHER_V;
  if (gather) {
    // Each rank states how much it sends. How much it receives follows from that, or is stated and
    // must agree.
    for (uint32_t i = 0; i < work.ranks; ++i) {
      const VariableEntry& entry = entry_of(options.metadata, i);
      if (entry.send_counts.size() != 1) {
        return fail(CCOM_INVALID, "metadata of rank {}: send_counts has {} entries, expected 1", i,
                    entry.send_counts.size());
      }
      work.counts.push_back(entry.send_counts[0]);
    }
    for (uint32_t i = 0; i < options.metadata.size(); ++i) {
      const VariableEntry& entry = options.metadata[i];
      if (!entry.receive_counts.empty() && entry.receive_counts != work.counts) {
        return fail(CCOM_INVALID,
                    "metadata of rank {}: recv_counts do not match what the ranks send", i);
      }
    }
    work.displacements = first.receive_displacements.empty() ? running_sum(work.counts)
                                                             : first.receive_displacements;
  } else {
    work.counts = first.send_counts;
    work.displacements =
        first.send_displacements.empty() ? running_sum(work.counts) : first.send_displacements;
  }
  if (work.counts.size() != work.ranks || work.displacements.size() != work.ranks) {
    return fail(CCOM_INVALID, "metadata has {} counts for a group of {} ranks", work.counts.size(),
                work.ranks);
  }
  return {};
}

Result<void> by_pair(Work& work, const BlockOptions& options, uint64_t elements, uint32_t place) {
  const uint32_t ranks = work.ranks;
  work.matrix.resize(uint64_t{ranks} * ranks);
  work.matrix_displacements.resize(work.matrix.size());
  for (uint32_t from = 0; from < ranks; ++from) {
    std::vector<uint64_t> counts, places;
    if (options.metadata.empty()) {
      counts = uneven(elements, ranks);
      std::rotate(counts.begin(), counts.begin() + from, counts.end());
    } else {
      const VariableEntry& entry = entry_of(options.metadata, from);
      counts = entry.send_counts;
      places = entry.send_displacements;
    }
    if (counts.size() != ranks) {
      return fail(CCOM_INVALID, "metadata of rank {}: send_counts has {} entries, expected {}",
                  from, counts.size(), ranks);
    }
    if (places.empty()) places = running_sum(counts);
    std::copy(counts.begin(), counts.end(), work.matrix.begin() + uint64_t{from} * ranks);
    std::copy(places.begin(), places.end(),
              work.matrix_displacements.begin() + uint64_t{from} * ranks);
  }
  const auto row = work.matrix.begin() + uint64_t{place} * ranks;
  work.counts.assign(row, row + ranks);
  const auto places = work.matrix_displacements.begin() + uint64_t{place} * ranks;
  work.displacements.assign(places, places + ranks);
  for (uint32_t from = 0; from < ranks; ++from) {
    work.receive_counts.push_back(work.matrix[uint64_t{from} * ranks + place]);
  }
  work.receive_displacements = running_sum(work.receive_counts);
  if (!options.metadata.empty()) {
    const VariableEntry& entry = entry_of(options.metadata, place);
    if (!entry.receive_counts.empty() && entry.receive_counts != work.receive_counts) {
      return fail(CCOM_INVALID,
                  "metadata of rank {}: recv_counts do not match what the others send it", place);
    }
    if (!entry.receive_displacements.empty()) {
      work.receive_displacements = entry.receive_displacements;
    }
  }
  return {};
}

Result<Work> make_work(const BlockOptions& options, const PairConfig& pairs, uint64_t elements,
                       uint32_t ranks, uint32_t place) {
  Work work;
  work.operation = options.operation;
  work.type = options.type;
  work.reduction = options.reduction;
  work.algorithm = options.algorithm;
  work.root = options.root;
  work.ranks = ranks;
  switch (options.operation) {
    case CCOM_ALL_GATHER:
    case CCOM_REDUCE_SCATTER:
    case CCOM_ALL_TO_ALL:
    case CCOM_GATHER:
    case CCOM_SCATTER:
      work.count = divided_up(elements, ranks);
      break;
    case CCOM_BARRIER:
      break;
    case CCOM_ALL_GATHER_V:
    case CCOM_REDUCE_SCATTER_V:
      NEURON_CHECK(by_rank(work, options, elements));
      break;
    case CCOM_ALL_TO_ALL_V:
      NEURON_CHECK(by_pair(work, options, elements, place));
      break;
    case CCOM_SEND_RECEIVE:
    case CCOM_PERMUTE:
      work.pairs = pairs;
      work.count = elements;
      break;
    default:
      work.count = elements;
  }
  return work;
}

// Elements of the whole operation, counted as its size does.
uint64_t whole(const Work& work) {
  switch (work.operation) {
    case CCOM_ALL_GATHER:
    case CCOM_REDUCE_SCATTER:
    case CCOM_ALL_TO_ALL:
    case CCOM_GATHER:
    case CCOM_SCATTER:
      return work.count * work.ranks;
    case CCOM_ALL_GATHER_V:
    case CCOM_REDUCE_SCATTER_V:
      return std::accumulate(work.counts.begin(), work.counts.end(), uint64_t{0});
    case CCOM_ALL_TO_ALL_V: {
      uint64_t most = 0;
      for (uint32_t from = 0; from < work.ranks; ++from) {
        const auto row = work.matrix.begin() + uint64_t{from} * work.ranks;
        most = std::max(most, std::accumulate(row, row + work.ranks, uint64_t{0}));
      }
      return most;
    }
    default:
      return work.count;
  }
}

}  // namespace

uint64_t Work::input_elements(uint32_t place) const {
  switch (operation) {
    case CCOM_REDUCE_SCATTER:
    case CCOM_ALL_TO_ALL:
      return count * ranks;
    case CCOM_SCATTER:
      return place == root ? count * ranks : 0;
    case CCOM_BROADCAST:
      return place == root ? count : 0;
    case CCOM_SEND_RECEIVE:
    case CCOM_PERMUTE:
      for (const ccom_pair_t& pair : pairs) {
        if (pair.source == place) return count;
      }
      return 0;
    case CCOM_BARRIER:
      return 0;
    case CCOM_ALL_GATHER_V:
      return counts[place];
    case CCOM_REDUCE_SCATTER_V:
    case CCOM_ALL_TO_ALL_V:
      return extent(counts, displacements);
    default:
      return count;
  }
}

uint64_t Work::output_elements(uint32_t place) const {
  switch (operation) {
    case CCOM_ALL_GATHER:
    case CCOM_ALL_TO_ALL:
      return count * ranks;
    case CCOM_GATHER:
      return place == root ? count * ranks : 0;
    case CCOM_REDUCE:
      return place == root ? count : 0;
    case CCOM_SEND_RECEIVE:
    case CCOM_PERMUTE:
      for (const ccom_pair_t& pair : pairs) {
        if (pair.target == place) return count;
      }
      return 0;
    case CCOM_BARRIER:
      return 0;
    case CCOM_ALL_GATHER_V:
      return extent(counts, displacements);
    case CCOM_REDUCE_SCATTER_V:
      return counts[place];
    case CCOM_ALL_TO_ALL_V:
      return extent(receive_counts, receive_displacements);
    default:
      return count;
  }
}

bool Work::in_place_offset(uint32_t place, uint64_t& offset, bool& output_is_larger) const {
  offset = 0;
  output_is_larger = true;
  switch (operation) {
    case CCOM_ALL_REDUCE:
    case CCOM_BROADCAST:
    case CCOM_REDUCE:
      return true;
    case CCOM_ALL_GATHER:
      offset = place * count;
      return true;
    case CCOM_GATHER:
      offset = place == root ? place * count : 0;
      return true;
    case CCOM_ALL_GATHER_V:
      offset = displacements[place];
      return true;
    case CCOM_REDUCE_SCATTER:
      output_is_larger = false;
      offset = place * count;
      return true;
    case CCOM_SCATTER:
      output_is_larger = false;
      offset = place == root ? place * count : 0;
      return true;
    case CCOM_REDUCE_SCATTER_V:
      output_is_larger = false;
      offset = displacements[place];
      return true;
    default:
      return false;
  }
}

ccom_collective_t collective_of(const Work& work) {
  ccom_collective_t c{};
  c.size_of = sizeof c;
  c.operation = work.operation;
  c.type = work.type;
  c.reduction = work.reduction;
  c.algorithm = work.algorithm;
  c.root = work.root;
  c.count = work.count;
  c.counts = work.counts.empty() ? nullptr : work.counts.data();
  c.displacements = work.displacements.empty() ? nullptr : work.displacements.data();
  c.receive_counts = work.receive_counts.empty() ? nullptr : work.receive_counts.data();
  c.receive_displacements =
      work.receive_displacements.empty() ? nullptr : work.receive_displacements.data();
  c.pairs = work.pairs.empty() ? nullptr : work.pairs.data();
  c.pair_count = static_cast<uint32_t>(work.pairs.size());
  return c;
}

ccom::Request request_of(const Work& work, bool in_place) {
  ccom::Request request;
  request.operation = work.operation;
  request.type = work.type;
  request.reduction = work.reduction;
  request.algorithm = work.algorithm;
  request.root = work.root;
  request.in_place = in_place;
  request.count = work.count;
  request.pairs = work.pairs;
  if (work.operation == CCOM_ALL_TO_ALL_V) {
    request.send_counts = work.matrix;
    request.send_displacements = work.matrix_displacements;
    request.receive_displacements.resize(work.matrix.size());
    for (uint32_t to = 0; to < work.ranks; ++to) {
      uint64_t at = 0;
      for (uint32_t from = 0; from < work.ranks; ++from) {
        request.receive_displacements[uint64_t{to} * work.ranks + from] = at;
        at += work.matrix[uint64_t{from} * work.ranks + to];
      }
    }
  } else {
    request.counts = work.counts;
    request.displacements = work.displacements;
  }
  return request;
}

std::vector<Segment> expected_output(const Work& work, uint32_t place) {
  std::vector<Segment> result;
  const uint64_t count = work.count;
  const auto copy = [&](uint64_t begin, uint64_t length, uint32_t from, uint64_t source) {
    if (length != 0) result.push_back({begin, length, Origin::kCopy, from, source});
  };
  const auto reduced = [&](uint64_t length, uint64_t source) {
    if (length != 0) result.push_back({0, length, Origin::kReduced, 0, source});
  };
  switch (work.operation) {
    case CCOM_ALL_REDUCE:
      reduced(count, 0);
      break;
    case CCOM_REDUCE:
      if (place == work.root) reduced(count, 0);
      break;
    case CCOM_REDUCE_SCATTER:
      reduced(count, place * count);
      break;
    case CCOM_REDUCE_SCATTER_V:
      reduced(work.counts[place], work.displacements[place]);
      break;
    case CCOM_BROADCAST:
      copy(0, count, work.root, 0);
      break;
    case CCOM_SCATTER:
      copy(0, count, work.root, place * count);
      break;
    case CCOM_GATHER:
      if (place != work.root) break;
      [[fallthrough]];
    case CCOM_ALL_GATHER:
      for (uint32_t from = 0; from < work.ranks; ++from) copy(from * count, count, from, 0);
      break;
    case CCOM_ALL_GATHER_V:
      for (uint32_t from = 0; from < work.ranks; ++from) {
        copy(work.displacements[from], work.counts[from], from, 0);
      }
      break;
    case CCOM_ALL_TO_ALL:
      for (uint32_t from = 0; from < work.ranks; ++from) {
        copy(from * count, count, from, place * count);
      }
      break;
    case CCOM_ALL_TO_ALL_V:
      for (uint32_t from = 0; from < work.ranks; ++from) {
        copy(work.receive_displacements[from], work.receive_counts[from], from,
             work.matrix_displacements[uint64_t{from} * work.ranks + place]);
      }
      break;
    case CCOM_SEND_RECEIVE:
    case CCOM_PERMUTE:
      for (const ccom_pair_t& pair : work.pairs) {
        if (pair.target == place) copy(0, count, pair.source, 0);
      }
      break;
    default:
      break;
  }
  return result;
}

Result<Case> make_case(const BlockOptions& options, const PairConfig& pairs, uint64_t size,
                       uint32_t ranks, uint32_t place) {
  Case result;
  const uint64_t width = type_size(options.type);
  const uint64_t elements = options.operation == CCOM_BARRIER ? 0 : divided_up(size, width);
  std::vector<uint32_t> parts = options.coalesced;
  if (parts.empty()) parts.push_back(1);
  const uint64_t all = std::accumulate(parts.begin(), parts.end(), uint64_t{0});
  for (const uint32_t part : parts) {
    NEURON_TRY(work, make_work(options, pairs, divided_up(elements * part, all), ranks, place));
    result.count += whole(work);
    result.total_input += work.input_elements(place) * width;
    result.total_output += work.output_elements(place) * width;
    result.works.push_back(std::move(work));
  }
  result.size = result.count * width;
  return result;
}

}  // namespace neuron::nccom
