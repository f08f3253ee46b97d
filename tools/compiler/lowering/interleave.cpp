// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/interleave.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <utility>

namespace neuron::lowering {
namespace {

using graph::Region;
using Dimension = Region::Dimension;
using Dimensions = std::vector<Dimension>;

// Fewer elements are moved one by one in the time of a transfer.
constexpr int64_t kLeast = 1024;
constexpr int64_t kLongest = 2048;  // columns of a tile of lines
constexpr size_t kMostStrands = 8;  // of a line; with more, others are as fast
constexpr size_t kMostLines = 64;
constexpr size_t kMostPieces = 256;  // of lines that are cut where others end
constexpr int64_t kMostMarked = int64_t{1} << 26;
constexpr size_t kResults = 3;

// Whether no element is written twice; then the order of the regions does not matter.
bool lie_apart(const Node& node) {
  if (graph::elements_of(node.shape) > kMostMarked) return false;
  std::vector<bool> there(static_cast<size_t>(graph::elements_of(node.shape)), false);
  for (const Region& region : node.regions) {
    int64_t count = 1;
    for (const Dimension& d : region.dimensions) count *= d.size;
    std::vector<int64_t> at(region.dimensions.size(), 0);
    int64_t to = region.to;
    for (int64_t number = 0; number < count; ++number) {
      auto element = there[static_cast<size_t>(to)];
      if (element) return false;
      element = true;
      for (size_t d = at.size(); d-- > 0;) {
        const Dimension& dimension = region.dimensions[d];
        to += dimension.to_step;
        if (++at[d] < dimension.size) break;
        to -= dimension.size * dimension.to_step;
        at[d] = 0;
      }
    }
  }
  return true;
}

// Elements [to], [to + step] ... of a line, neighbours in their operand.
struct Strand {
  uint32_t operand = 0;
  int64_t to = 0, from = 0, count = 0, step = 1;
  Dimensions rest;  // which lines, outermost first
};

int64_t end_of(const Strand& strand) { return strand.to + (strand.count - 1) * strand.step + 1; }

// Dimensions that lie between the elements of a strand make strands of their own.
std::optional<std::vector<Strand>> strands_of(const Region& region, uint32_t operand) {
  size_t along = region.dimensions.size();
  for (size_t i = 0; i < region.dimensions.size(); ++i) {
    const Dimension& d = region.dimensions[i];
    if (d.size > 1 && d.from_step == 1 && d.to_step > 1) along = i;
  }
  if (along == region.dimensions.size()) return std::nullopt;
  const Dimension& line = region.dimensions[along];
  std::vector<Strand> list = {{operand, region.to, region.from, line.size, line.to_step, {}}};
  for (size_t i = 0; i < region.dimensions.size(); ++i) {
    const Dimension& d = region.dimensions[i];
    if (i == along || d.size == 1) continue;
    if (d.to_step >= line.to_step) {
      for (Strand& strand : list) strand.rest.push_back(d);
      continue;
    }
    std::vector<Strand> more;
    if (list.size() * static_cast<size_t>(d.size) > kMostStrands) return std::nullopt;
    for (const Strand& strand : list) {
      for (int64_t k = 0; k < d.size; ++k) {
        more.push_back(strand);
        more.back().to += k * d.to_step;
        more.back().from += k * d.from_step;
      }
    }
    list = std::move(more);
  }
  return list;
}

bool same_lines(const Strand& a, const Strand& b) {
  return a.rest.size() == b.rest.size() && std::equal(a.rest.begin(), a.rest.end(), b.rest.begin(),
                                                      [](const Dimension& x, const Dimension& y) {
                                                        return x.size == y.size &&
                                                               x.to_step == y.to_step;
                                                      });
}

// Strands that lie in the same lines.
struct Line {
  int64_t to = 0, end = 0;
  std::vector<Strand> strands;
  bool whole = false;
};

// Lines that follow one another are one, if it is not too long: so runs of bytes are longer.
std::vector<Line> together(std::vector<Line> lines) {
  std::vector<Line> list;
  for (Line& line : lines) {
    Line* last = list.empty() ? nullptr : &list.back();
    if (last != nullptr && last->end == line.to && line.end - last->to <= kLongest / 2 &&
        last->strands.size() + line.strands.size() <= kMostStrands &&
        same_lines(last->strands[0], line.strands[0])) {
      last->end = line.end;
      last->strands.insert(last->strands.end(), line.strands.begin(), line.strands.end());
    } else {
      list.push_back(std::move(line));
    }
  }
  return list;
}

std::optional<std::vector<Line>> lines_of(std::vector<Strand> strands) {
  std::sort(strands.begin(), strands.end(),
            [](const Strand& a, const Strand& b) { return a.to < b.to; });
  std::vector<Line> lines;
  for (Strand& strand : strands) {
    const int64_t end = end_of(strand);
    if (lines.empty() || strand.to >= lines.back().end) lines.push_back({strand.to, end, {}});
    Line& line = lines.back();
    if (!line.strands.empty() && !same_lines(line.strands[0], strand)) return std::nullopt;
    line.end = std::max(line.end, end);
    line.strands.push_back(std::move(strand));
  }
  lines = together(std::move(lines));
  for (Line& line : lines) {
    const int64_t length = line.end - line.to;
    const auto crosses = [&](const Dimension& d) { return d.to_step < length; };
    const Dimensions& rest = line.strands[0].rest;
    if (length > kLongest || line.strands.size() > kMostStrands ||
        std::any_of(rest.begin(), rest.end(), crosses)) {
      return std::nullopt;
    }
    int64_t count = 0;
    for (const Strand& strand : line.strands) count += strand.count;
    line.whole = count == length;
  }
  return lines;
}

// Where a dimension of the strand, or of one that lies along it and is shorter, ends.
std::set<int64_t> ends_of(const std::vector<Strand>& strands, const Strand& strand, size_t number) {
  const Dimension& dimension = strand.rest[number];
  std::set<int64_t> ends = {dimension.size};
  for (const Strand& other : strands) {
    if (other.rest.size() == strand.rest.size() &&
        other.rest[number].to_step == dimension.to_step) {
      ends.insert(std::min(other.rest[number].size, dimension.size));
    }
  }
  return ends;
}

// A dimension that some strands have fewer elements of is cut where those end: odd images have one
// line more of some phases than of others.
std::optional<std::vector<Strand>> cut(const std::vector<Strand>& strands) {
  std::vector<Strand> list;
  for (const Strand& strand : strands) {
    std::vector<Strand> pieces = {strand};
    for (size_t d = 0; d < strand.rest.size(); ++d) {
      std::vector<Strand> more;
      int64_t begin = 0;
      for (const int64_t end : ends_of(strands, strand, d)) {
        if (more.size() + pieces.size() > kMostPieces) return std::nullopt;
        for (const Strand& piece : pieces) {
          Strand& part = more.emplace_back(piece);
          Dimension& dimension = part.rest[d];
          part.to += begin * dimension.to_step;
          part.from += begin * dimension.from_step;
          dimension.size = end - begin;
        }
        begin = end;
      }
      pieces = std::move(more);
    }
    list.insert(list.end(), pieces.begin(), pieces.end());
    if (list.size() > kMostPieces) return std::nullopt;
  }
  return list;
}

// Lines [first of each dimension] that one tile has: `deep` neighbours on each of `parts`
// partitions, along dimension `across` of the lines.
struct Block {
  std::vector<int64_t> first;
  size_t across = 0;
  uint32_t parts = 1, deep = 1;
};

class Interleave {
 public:
  Interleave(Workspace& work, const Node& node, const Buffer& to)
      : work_(work), node_(node), to_(to) {}
  ~Interleave() {
    for (const auto* ring : {&loaded_, &results_}) {
      for (const Tile& tile : *ring) work_.program.release(tile);
    }
  }
  Interleave(const Interleave&) = delete;
  Interleave& operator=(const Interleave&) = delete;

  void allocate(const std::vector<Line>& lines);
  void emit(const Line& line);
  // Stores what is still to be stored.
  void end() { store_until(0); }

 private:
  static BufferAccess rows(const Buffer& buffer, int64_t first, const Block& block, int64_t width,
                           int64_t step);
  void block(const Line& line, const Block& block);
  void fill(const TileAccess& tile);
  void store_until(size_t left);

  Workspace& work_;
  const Node& node_;
  const Buffer to_;
  std::vector<Buffer> from_;
  std::vector<Tile> loaded_, results_;
  size_t next_loaded_ = 0, next_result_ = 0;
  // Stores wait for engines: loads of further blocks begin before.
  std::deque<std::pair<BufferAccess, TileAccess>> waiting_;
};

BufferAccess Interleave::rows(const Buffer& buffer, int64_t first, const Block& block,
                              int64_t width, int64_t step) {
  BufferAccess access;
  access.buffer = buffer.index;
  access.dtype = buffer.dtype;
  access.offset = static_cast<uint64_t>(first) * 4;
  const auto bytes = static_cast<uint64_t>(width) * 4;
  if (step == width) {
    // Neighbours are one run.
    access.ndim = 2;
    access.size = {bytes * block.deep, block.parts, 1, 1};
    access.step = {1, static_cast<int64_t>(bytes) * block.deep, 0, 0};
  } else {
    access.ndim = 3;
    access.size = {bytes, block.deep, block.parts, 1};
    access.step = {1, step * 4, step * 4 * block.deep, 0};
  }
  return access;
}

// How many neighbours a partition has at most.
int64_t depth_of(const Line& line) {
  int64_t widest = 1;
  for (const Strand& strand : line.strands) widest = std::max(widest, strand.count);
  return std::max<int64_t>(1,
                           std::min(kLongest / (line.end - line.to), Workspace::kWidth / widest));
}

void Interleave::allocate(const std::vector<Line>& lines) {
  // What is stored for it comes first: it may need the room.
  for (const Value operand : node_.operands) from_.push_back(work_.place(operand));
  work_.trim();
  work_.trim_stream();
  work_.program.section(node_.origin);
  int64_t longest = 1, widest = 1;
  size_t most = 1;
  for (const Line& line : lines) {
    most = std::max(most, line.strands.size());
    longest = std::max(longest, depth_of(line) * (line.end - line.to));
    for (const Strand& strand : line.strands) {
      widest = std::max(widest, depth_of(line) * strand.count);
    }
  }
  const auto tiles = [&](std::vector<Tile>& ring, size_t count, const char* name, int64_t columns) {
    for (size_t i = 0; i < count; ++i) {
      ring.push_back(work_.program.sbuf(name, NEURON_PARTITIONS, static_cast<uint32_t>(columns),
                                        NEURON_DTYPE_U32));
    }
  };
  tiles(results_, kResults, "lines", longest);
  // Of the next lines, while those of the present ones are still copied.
  tiles(loaded_, 2 * most, "strands", widest);
}

void Interleave::fill(const TileAccess& tile) {
  work_.program.memset(Engine::kPool, tile, fill_bits(node_));
}

void Interleave::store_until(size_t left) {
  for (; waiting_.size() > left; waiting_.pop_front()) {
    work_.store(waiting_.front().first, waiting_.front().second);
  }
}

void Interleave::block(const Line& line, const Block& block) {
  const int64_t length = line.end - line.to;
  const Tile& result = results_[next_result_++ % results_.size()];
  const TileAccess all = result.at(0, block.parts, 0, block.deep * static_cast<uint32_t>(length));
  const auto element = [&](int64_t first, int64_t Dimension::*step, const Strand& strand) {
    for (size_t d = 0; d < block.first.size(); ++d) {
      first += block.first[d] * (strand.rest[d].*step);
    }
    return first;
  };
  const auto step_of = [&](int64_t Dimension::*step, const Strand& strand) {
    return block.across < block.first.size() ? strand.rest[block.across].*step : 0;
  };
  std::vector<std::pair<TileAccess, TileAccess>> copies;
  for (const Strand& strand : line.strands) {
    const auto count = static_cast<uint32_t>(strand.count);
    const Tile& tile = loaded_[next_loaded_++ % loaded_.size()];
    work_.load(tile.at(0, block.parts, 0, block.deep * count),
               rows(from_[strand.operand], element(strand.from, &Dimension::from_step, strand),
                    block, strand.count, step_of(&Dimension::from_step, strand)));
    copies.emplace_back(
        result.pattern(0, block.parts, static_cast<uint32_t>(strand.to - line.to),
                       {count, block.deep},
                       {static_cast<int32_t>(strand.step), static_cast<int32_t>(length)}),
        tile.pattern(0, block.parts, 0, {count, block.deep}, {1, static_cast<int32_t>(count)}));
  }
  store_until(kResults - 1);
  if (!line.whole) fill(all);
  for (size_t i = 0; i < copies.size(); ++i) {
    auto& [to, from] = copies[i];
    if (graph::is_real(node_.type) && i % 2 == 1) {
      to.dtype = from.dtype = NEURON_DTYPE_F32;
      work_.program.activate(to, NEURON_ACT_COPY, from);
    } else {
      work_.program.tensor_copy(Engine::kDve, to, from);
    }
  }
  const Strand& one = line.strands[0];
  waiting_.emplace_back(rows(to_, element(line.to, &Dimension::to_step, one), block, length,
                             step_of(&Dimension::to_step, one)),
                        all);
}

void Interleave::emit(const Line& line) {
  const Dimensions& rest = line.strands[0].rest;
  size_t across = rest.size();
  int64_t blocks = 1;
  for (size_t d = 0; d < rest.size(); ++d) {
    if (across == rest.size() || rest[d].size > rest[across].size) across = d;
    blocks *= rest[d].size;
  }
  const int64_t all = across < rest.size() ? rest[across].size : 1;
  blocks /= all;
  const int64_t deep = std::min(depth_of(line), (all + NEURON_PARTITIONS - 1) / NEURON_PARTITIONS);
  for (int64_t number = 0; number < blocks && work_.program.ok(); ++number) {
    Block next{std::vector<int64_t>(rest.size(), 0), across, 1, 1};
    int64_t left = number;
    for (size_t d = rest.size(); d-- > 0;) {
      if (d == across) continue;
      next.first[d] = left % rest[d].size;
      left /= rest[d].size;
    }
    for (int64_t first = 0; first < all;) {
      if (across < rest.size()) next.first[across] = first;
      next.deep = static_cast<uint32_t>(all - first >= deep ? deep : 1);
      next.parts =
          static_cast<uint32_t>(std::min<int64_t>(NEURON_PARTITIONS, (all - first) / next.deep));
      block(line, next);
      first += int64_t{next.parts} * next.deep;
    }
  }
}

}  // namespace

bool emit_interleave(Workspace& work, const Node& node, const Buffer& to) {
  if (graph::elements_of(node.shape) < kLeast) return false;
  std::vector<Strand> strands;
  for (const Region& region : node.regions) {
    auto some = strands_of(region, region.operand);
    if (!some || strands.size() + some->size() > kMostLines) return false;
    strands.insert(strands.end(), some->begin(), some->end());
  }
  auto pieces = cut(strands);
  if (!pieces) return false;
  const auto lines = lines_of(std::move(*pieces));
  if (!lines || !lie_apart(node)) return false;
  Interleave interleave(work, node, to);
  interleave.allocate(*lines);
  for (const Line& line : *lines) interleave.emit(line);
  interleave.end();
  return true;
}

}  // namespace neuron::lowering
