// SPDX-License-Identifier: Apache-2.0
// Convolutions of images with zeros between their elements, as transposed ones are. Results that
// meet the same part of the kernel are an ordinary convolution of the image itself; there are as
// many as the elements lie apart, and their results are interleaved.
#include <algorithm>
#include <numeric>

#include "tools/compiler/graph/builder.h"

namespace neuron::graph {
namespace {

using Window = Builder::Window;

// With more of them each has too little work.
constexpr int64_t kMostPhases = 64;
// Rows of one product that several phases share; with more, each phase fills tiles of its own.
constexpr int64_t kMostShared = 64;
// Blocks of rows move to other partitions from multiples of these on. Where the result is too large
// to stay in SBUF, its rows need not begin there.
constexpr int64_t kRowsOfBlock = 32;
constexpr int64_t kMostResident = 8192;
// Maps are computed before interleaving if there are no more convolutions than these.
constexpr size_t kMostParts = 4;

// Along one dimension: every `period`-th result, from one of the first on.
struct Residue {
  Slice kernel;   // which of its elements meet elements of the image
  Window window;  // of the image
};

// `window` sees an image whose elements lie `gap` apart.
std::vector<Residue> residues_of(const Window& window, int64_t gap) {
  const int64_t common = std::gcd(gap, window.stride), period = gap / common;
  const int64_t step = gap / std::gcd(gap, window.dilation);
  std::vector<Residue> list;
  for (int64_t r = 0; r < period; ++r) {
    const int64_t origin = window.first + r * window.stride;
    int64_t k = 0;
    while (k < step && (origin + k * window.dilation) % gap != 0) ++k;
    Residue residue;
    const int64_t count = k < step && k < window.size ? (window.size - k + step - 1) / step : 0;
    residue.kernel = {k, count, step};
    residue.window = {count, window.dilation * step / gap,
                      std::max<int64_t>(0, (window.count - r + period - 1) / period),
                      window.stride / common, (origin + k * window.dilation) / gap};
    list.push_back(residue);
  }
  return list;
}

// One residue of each dimension.
struct Phase {
  std::vector<int64_t> residues;
  std::vector<Slice> kernel;
  std::vector<Window> windows;
};

std::vector<Phase> phases_of(const std::vector<std::vector<Residue>>& residues) {
  std::vector<Phase> list = {{}};
  for (const std::vector<Residue>& dimension : residues) {
    std::vector<Phase> more;
    for (const Phase& phase : list) {
      for (size_t r = 0; r < dimension.size(); ++r) {
        // Results that meet nothing are 0, and nobody asks for those of a count of 0.
        if (dimension[r].window.size == 0 || dimension[r].window.count == 0) continue;
        Phase next = phase;
        next.residues.push_back(static_cast<int64_t>(r));
        next.kernel.push_back(dimension[r].kernel);
        next.windows.push_back(dimension[r].window);
        more.push_back(std::move(next));
      }
    }
    list = std::move(more);
  }
  return list;
}

// Whether one convolution may compute both; the longer count is that of both.
bool see_the_same(const Phase& a, const Phase& b) {
  for (size_t i = 0; i < a.windows.size(); ++i) {
    const Window &one = a.windows[i], &other = b.windows[i];
    if (one.size != other.size || one.first != other.first) return false;
  }
  return true;
}

// Which phases are one convolution each.
std::vector<std::vector<size_t>> together(const std::vector<Phase>& phases, bool shares) {
  std::vector<std::vector<size_t>> list;
  for (size_t i = 0; i < phases.size(); ++i) {
    const auto same = std::find_if(list.begin(), list.end(), [&](const auto& members) {
      return shares && see_the_same(phases[members[0]], phases[i]);
    });
    if (same == list.end()) {
      list.push_back({i});
    } else {
      same->push_back(i);
    }
  }
  return list;
}

// What all members see, as often as one of them does.
std::vector<Window> windows_of(const std::vector<Phase>& phases,
                               const std::vector<size_t>& members) {
  std::vector<Window> windows = phases[members[0]].windows;
  for (const size_t member : members) {
    for (size_t d = 0; d < windows.size(); ++d) {
      windows[d].count = std::max(windows[d].count, phases[member].windows[d].count);
    }
  }
  return windows;
}

// Where the elements of a phase lie in the result; `from` is [images, groups, phases, pitch, ...].
Region region_of(const Phase& phase, const std::vector<std::vector<Residue>>& residues,
                 const Shape& result, const Shape& from) {
  const Shape to_steps = strides_of(result), steps = strides_of(from);
  const int64_t outputs = result[1] / from[1];
  Region region;
  region.dimensions = {{result[0], to_steps[0], steps[0]},
                       {from[1], outputs * to_steps[1], steps[1]},
                       {outputs, to_steps[1], steps[3]}};
  for (size_t d = 0; d < residues.size(); ++d) {
    const auto period = static_cast<int64_t>(residues[d].size());
    region.to += phase.residues[d] * to_steps[d + 2];
    region.dimensions.push_back({phase.windows[d].count, to_steps[d + 2] * period, steps[d + 4]});
  }
  return region;
}

}  // namespace

Value Builder::spread(Value x, const std::vector<int64_t>& gaps) {
  if (!usable({x})) return kNone;
  const Shape from = shape(x);
  Shape to = from;
  for (size_t i = 0; i < gaps.size(); ++i) {
    to[i + 2] = std::max<int64_t>(0, from[i + 2] - 1) * gaps[i] + (from[i + 2] > 0 ? 1 : 0);
  }
  if (to == from || !allowed(to)) return ok() ? x : kNone;
  const Shape to_steps = strides_of(to), from_steps = strides_of(from);
  Region region;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t gap = i < 2 ? 1 : gaps[i - 2];
    region.dimensions.push_back({from[i], to_steps[i] * gap, from_steps[i]});
  }
  return regions({x}, to, {region});
}

// [groups * outputs, ...] of each phase becomes [groups, phases, pitch, ...]: rows that nobody
// reads fill each phase up.
Value Builder::phase_weights(Value weights, const std::vector<std::vector<Slice>>& kernels,
                             const Joining::Part& part) {
  const Shape filter = shape(weights);
  std::vector<Value> list;
  for (const std::vector<Slice>& kernel : kernels) {
    std::vector<Slice> slices = {{0, filter[0], 1}, {0, filter[1], 1}};
    slices.insert(slices.end(), kernel.begin(), kernel.end());
    const Value some = slice(weights, slices);
    if (kernels.size() == 1 || !ok()) return some;
    const int64_t depth = elements_of(shape(some)) / filter[0];
    list.push_back(pad(reshape(some, {part.groups, 1, part.outputs, depth}), {0, 0, 0, 0},
                       {0, 0, part.pitch - part.outputs, 0}, 0));
  }
  Shape together = {part.groups * part.phases * part.pitch, filter[1]};
  for (const Slice& dimension : kernels[0]) together.push_back(dimension.count);
  return reshape(concat(list, 1), together);
}

Value Builder::spread_convolution(Value x, Value weights, const std::vector<Window>& windows,
                                  const std::vector<int64_t>& gaps, int64_t groups) {
  if (!usable({x, weights})) return kNone;
  const Shape input = shape(x), filter = shape(weights);
  int64_t count = 1;
  bool apart = false, usual = input.size() == windows.size() + 2 && filter.size() == input.size();
  for (size_t i = 0; i < windows.size(); ++i) {
    apart = apart || gaps[i] > 1;
    usual = usual && windows[i].size == filter[i + 2] && input[i + 2] > 0 && gaps[i] >= 1;
    count = std::min(kMostPhases + 1, count * std::min(gaps[i], kMostPhases + 1));
  }
  if (!apart) return convolution(x, weights, windows, groups);
  if (!usual || groups < 1 || filter[0] % groups != 0 || count > kMostPhases) {
    return convolution(spread(x, gaps), weights, windows, groups);
  }
  std::vector<std::vector<Residue>> residues;
  Shape result = {input[0], filter[0]};
  for (size_t i = 0; i < windows.size(); ++i) {
    residues.push_back(residues_of(windows[i], gaps[i]));
    result.push_back(windows[i].count);
  }
  if (!allowed(result)) return kNone;
  const std::vector<Phase> phases = phases_of(residues);
  if (phases.empty()) return convolution(spread(x, gaps), weights, windows, groups);
  const int64_t outputs = filter[0] / groups;
  const int64_t pixels = elements_of(result) / filter[0];
  const bool resident = pixels <= kMostResident;
  const bool shares = outputs <= kMostShared && filter[1] > 1;
  auto joining = std::make_shared<Joining>();
  joining->shape = result;
  joining->whole =
      phases.size() == static_cast<size_t>(std::accumulate(
                           residues.begin(), residues.end(), size_t{1},
                           [](size_t n, const auto& list) { return n * list.size(); }));
  std::vector<Value> parts;
  for (const std::vector<size_t>& members : together(phases, shares)) {
    Joining::Part part{groups, static_cast<int64_t>(members.size()), outputs, outputs};
    if (members.size() > 1 && resident) {
      part.pitch = (outputs + kRowsOfBlock - 1) / kRowsOfBlock * kRowsOfBlock;
    }
    const std::vector<Window> seen = windows_of(phases, members);
    Shape from = {input[0], groups, part.phases, part.pitch};
    for (const Window& window : seen) from.push_back(window.count);
    if (!allowed(from)) return kNone;
    std::vector<std::vector<Slice>> kernels;
    for (const size_t member : members) {
      Region region = region_of(phases[member], residues, result, from);
      region.operand = static_cast<uint32_t>(parts.size());
      region.from = static_cast<int64_t>(kernels.size()) * strides_of(from)[2];
      joining->regions.push_back(std::move(region));
      kernels.push_back(phases[member].kernel);
    }
    joining->parts.push_back(part);
    parts.push_back(convolution(x, phase_weights(weights, kernels, part), seen, groups));
  }
  return joined(std::move(joining), parts);
}

Value Builder::joined(std::shared_ptr<const Joining> joining, const std::vector<Value>& parts) {
  for (const Value part : parts) {
    if (!usable({part})) return kNone;
  }
  const Value value = regions(parts, joining->shape, joining->regions);
  if (value >= 0 && joining->whole && parts.size() <= kMostParts) {
    joined_[value] = {std::move(joining), parts};
  }
  return value;
}

// The numbers of the channels of the result as those of a part: for each phase.
Value Builder::numbers_of(const Joining::Part& part, Value numbers, size_t rank) {
  const Value channels = reshape(numbers, {part.groups, 1, part.outputs});
  // What nobody reads is divided by 1.
  const Value all = pad(expand(channels, {part.groups, part.phases, part.outputs}), {0, 0, 0},
                        {0, 0, part.pitch - part.outputs}, 1);
  Shape to(rank, 1);
  to[1] = part.groups * part.phases * part.pitch;
  return reshape(all, to);
}

// A number for all channels, or one for each: what each part may meet for itself.
bool Builder::fits_channels(Value numbers, const Shape& to) const {
  const Tensor* known = constant_of(numbers);
  if (known == nullptr || shape(numbers).size() > to.size()) return false;
  if (known->elements() == 1) return true;
  const size_t added = to.size() - shape(numbers).size();
  return added <= 1 && known->elements() == to[1] && shape(numbers)[1 - added] == to[1];
}

Value Builder::joined_map(Function function, Value a, Value b) {
  const auto left = joined_.find(a), right = joined_.find(b);
  const Value given = left != joined_.end() ? a : b, other = given == a ? b : a;
  if (left == joined_.end() && right == joined_.end()) return kNone;
  const auto [joining, parts] = joined_.at(given);
  const bool both = left != joined_.end() && right != joined_.end();
  if (both && right->second.joining != joining) return kNone;
  if (!both && other != kNone && !fits_channels(other, joining->shape)) return kNone;
  std::vector<Value> mapped;
  for (size_t i = 0; i < parts.size() && ok(); ++i) {
    if (other == kNone) {
      mapped.push_back(map(function, parts[i]));
      continue;
    }
    Value second = other;
    if (both) {
      second = (given == a ? right : left)->second.parts[i];
    } else if (constant_of(other)->elements() > 1) {
      second = numbers_of(joining->parts[i], other, joining->shape.size());
    }
    mapped.push_back(given == a ? map(function, parts[i], second)
                                : map(function, second, parts[i]));
  }
  return joined(joining, mapped);
}

}  // namespace neuron::graph
