// SPDX-License-Identifier: Apache-2.0
// Patterns over HBM and copies of every core's queues, through the driver library.
//
// Device memory is allocated as by any client, so memory of others is never touched. All reads are
// copies within the device, because the host may see an emulated device's memory without DMA. A
// copy that fails is halved until the bad line of 64 bytes is found. If a failed copy succeeds when
// repeated, the error is the engine's that copied.
#include <ndl/ndl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>

#include "tools/device_checks/workers.h"
#include "tools/telemetry/generation.h"

namespace neuron::checks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlock = 64 << 10, kEccLine = 64, kChunk = 64 << 20;
// At least a MiB of each stack is tested, even if another stack has used up the time.
constexpr size_t kLeastBlocks = 16;

enum class Pattern { kAddress, kComplement, kRandom, kZero, kOne };
constexpr const char* kPatternNames[] = {"address in data", "complement of the address", "random",
                                         "zeros", "ones"};

uint64_t mixed(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

uint64_t word_of(Pattern pattern, uint64_t address) {
  switch (pattern) {
    case Pattern::kAddress:
      return address;
    case Pattern::kComplement:
      return ~address;
    case Pattern::kRandom:
      return mixed(address);
    case Pattern::kZero:
      return 0;
    case Pattern::kOne:
      break;
  }
  return ~uint64_t{0};
}

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

struct Chunk {
  uint64_t handle = 0, address = 0;
  size_t bytes = 0;
};

// Memory of the device to which data is copied, so that it has moved by DMA when it is read.
class Scratch {
 public:
  Scratch(ndl_device_t* device, int hbm, uint32_t core) {
    if (ndl_memory_alloc(device, kBlock, 0, 0, static_cast<uint32_t>(hbm), 0, core,
                         NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &handle_) != 0) {
      handle_ = 0;
    }
  }
  ~Scratch() {
    if (handle_ != 0) ndl_memory_free(handle_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  bool good() const { return handle_ != 0; }
  // At most kBlock.
  bool copy(uint64_t source, size_t at, size_t bytes) const {
    return ndl_memory_copy(source, handle_, at, 0, bytes) == 0;
  }
  bool read(std::vector<uint64_t>& words) const {
    return ndl_memory_buf_copyout(handle_, words.data(), 0, words.size() * 8) == 0;
  }
  // The first line of 64 bytes from `at` on that cannot be read; empty if all can be read now.
  std::optional<size_t> find_bad_line(uint64_t source, size_t at, size_t length) const {
    for (size_t begin = at; begin < at + length; begin += kBlock) {
      size_t bytes = std::min(kBlock, at + length - begin), line = begin;
      if (copy(source, begin, bytes)) continue;
      while (bytes > kEccLine) {
        bytes /= 2;
        if (copy(source, line, bytes)) line += bytes;
      }
      if (!copy(source, line, bytes)) return line;
    }
    return std::nullopt;
  }

 private:
  uint64_t handle_ = 0;
};

// `sentence`: from the copy that met the error; it names the engine that copied.
void blame_memory(Finding& finding, int hbm, uint64_t address, const std::string& sentence) {
  Finding copier;
  place_from_sentence(sentence, copier);
  finding.engine = "HBM " + std::to_string(hbm);
  finding.ring = copier.engine + " " + copier.ring;
  finding.address = hex(address);
  finding.found = "64 bytes cannot be read: " + sentence;
  finding.expected = "a read that succeeds";
  finding.action = Action::kResetDevice;
  finding.repair = Repair::kUnknown;
}

struct Block {
  const Chunk* chunk;
  size_t at;
};

class MemoryCheck {
 public:
  MemoryCheck(const Part& part, ndl_device_t* device, int hbm, uint32_t core)
      : part_(part),
        device_(device),
        hbm_(hbm),
        core_(core),
        scratch_(device, hbm, core),
        data_(kBlock / 8),
        back_(kBlock / 8) {}
  ~MemoryCheck() {
    for (const Chunk& chunk : chunks_) ndl_memory_free(chunk.handle);
  }

  void run(uint64_t bytes) {
    tell_step(where("allocating"));
    uint64_t taken = 0;
    while (taken < bytes) {
      Chunk chunk;
      chunk.bytes = std::min<uint64_t>(kChunk, bytes - taken) / kBlock * kBlock;
      if (chunk.bytes == 0 ||
          ndl_memory_alloc(device_, chunk.bytes, 0, 0, static_cast<uint32_t>(hbm_), 0, core_,
                           NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &chunk.handle) != 0 ||
          ndl_memory_get_pa(chunk.handle, &chunk.address) != 0) {
        break;
      }
      chunks_.push_back(chunk);
      taken += chunk.bytes;
    }
    if (chunks_.empty() || !scratch_.good()) {
      Finding finding = where("no memory is free for patterns: " + std::string(ndl_last_error()));
      finding.verdict = Verdict::kSkip;
      tell_finding(finding);
      return;
    }
    // 1 MiB of the 64, 64 of the 1024, or all of it.
    const size_t stride = part_.level == 1 ? 64 : part_.level == 2 ? 16 : 1;
    for (const Chunk& chunk : chunks_) {
      for (size_t at = 0; at + kBlock <= chunk.bytes; at += kBlock * stride) {
        blocks_.push_back({&chunk, at});
      }
    }
    std::vector<Pattern> patterns = {Pattern::kAddress, Pattern::kComplement};
    if (part_.level != 1) patterns.push_back(Pattern::kRandom);
    // Each reads and writes once; the march three times.
    unsigned turns = static_cast<unsigned>(patterns.size()) + (part_.level >= 3 ? 3 : 0);
    size_t least = blocks_.size();
    for (const Pattern pattern : patterns) {
      least = std::min(least, pass(pattern, share_end(1, turns)));
      turns -= 1;
    }
    std::string marched;
    if (part_.level >= 3) {
      const size_t blocks = march(share_end(3, turns));
      if (blocks < blocks_.size()) {
        marched = " (march test: " + std::to_string(blocks >> 4) + " MiB)";
      }
    }
    if (failures_ != 0) return;
    const size_t all = blocks_.size();
    const std::string where_tried = stride == 1
                                        ? ""
                                        : ", every " + std::to_string(stride) + "th piece of " +
                                              std::to_string(taken >> 20) + " MiB,";
    Finding finding =
        where(std::to_string(least >> 4) + " MiB" + where_tried + " hold what was written");
    if (least < all || !marched.empty()) finding.found += ", there was no time for more" + marched;
    if (least == 0) {
      finding.verdict = Verdict::kSkip;
      finding.found =
          "none of " + std::to_string(taken >> 20) + " MiB was tried, there was no time for it";
    }
    tell_finding(finding);
  }

 private:
  Finding where(const std::string& found) const {
    Finding finding;
    finding.check = "memory.pattern";
    finding.device = part_.device;
    finding.engine = "HBM " + std::to_string(hbm_);
    finding.found = found;
    return finding;
  }
  void fail(Finding finding) {
    finding.verdict = Verdict::kFail;
    // Each pattern meets the same bad line again.
    if (!finding.address.empty() && !told_.insert(finding.address).second) return;
    // A device that is broken altogether reports only the first failures, one that is gone itself.
    if (++failures_ <= kMostFailures) tell_finding(finding);
    if (finding.action == Action::kReboot) failures_ = kMostFailures + 1;
  }

  // The end of the time for the next `turns` of the `of` turns that are left.
  Clock::time_point share_end(unsigned turns, unsigned of) const {
    if (part_.budget.count() == 0) return Clock::time_point::max();
    const auto now = Clock::now();
    return now + std::max(end_ - now, Clock::duration::zero()) * turns / of;
  }

  // Visits the first `count` blocks, upwards or downwards, until `end`. Returns how many it
  // visited.
  template <typename Use>
  size_t each_block(size_t count, bool upwards, Clock::time_point end, const std::string& doing,
                    Use use) {
    const Chunk* told = nullptr;
    for (size_t i = 0; i < count; ++i) {
      const Block& block = blocks_[upwards ? i : count - 1 - i];
      if (failures_ > kMostFailures || (i >= kLeastBlocks && Clock::now() >= end)) return i;
      if (block.chunk != told) {
        told = block.chunk;
        tell_step(where(doing + " at " + hex(told->address)));
      }
      use(*block.chunk, block.at);
    }
    return count;
  }

  void write(Pattern pattern, const Chunk& chunk, size_t at) {
    for (size_t i = 0; i < data_.size(); ++i) {
      data_[i] = word_of(pattern, chunk.address + at + 8 * i);
    }
    if (ndl_memory_buf_copyin(chunk.handle, data_.data(), at, kBlock) == 0) return;
    Finding finding =
        where(std::string("writing ") + hex(chunk.address + at) + ": " + ndl_last_error());
    place_from_sentence(finding.found, finding);
    finding.expected = "a copy that ends";
    finding.action = finding.found.find("does not answer") != std::string::npos
                         ? Action::kReboot
                         : Action::kReplaceInstance;
    fail(finding);
  }

  void read(Pattern pattern, const Chunk& chunk, size_t at) {
    if (!scratch_.copy(chunk.handle, at, kBlock) || !scratch_.read(back_)) {
      read_failed(chunk, at, ndl_last_error());
      return;
    }
    for (size_t i = 0; i < back_.size(); ++i) {
      const uint64_t address = chunk.address + at + 8 * i;
      if (back_[i] == word_of(pattern, address)) continue;
      Finding finding =
          where("found " + hex(back_[i]) + " (" + kPatternNames[static_cast<int>(pattern)] + ")");
      finding.address = hex(address);
      finding.expected = hex(word_of(pattern, address));
      finding.action = Action::kReplaceInstance;
      fail(finding);
      return;
    }
  }

  void read_failed(const Chunk& chunk, size_t at, const std::string& sentence) {
    Finding finding = where(sentence);
    finding.expected = "a read that succeeds";
    finding.action = Action::kReplaceInstance;
    if (sentence.find("does not answer") != std::string::npos) {
      finding.action = Action::kReboot;
      fail(finding);
      return;
    }
    if (const auto line = scratch_.find_bad_line(chunk.handle, at, kBlock)) {
      blame_memory(finding, hbm_, chunk.address + *line, sentence);
    } else {
      // The copy failed once and not again: the error is the engine's, not the memory's.
      place_from_sentence(sentence, finding);
      finding.address.clear();
    }
    fail(finding);
  }

  // All blocks are written before the first is read, which detects a line that answers for two
  // addresses.
  size_t pass(Pattern pattern, Clock::time_point end) {
    const auto now = Clock::now();
    const auto half = end == Clock::time_point::max() ? end : now + (end - now) / 2;
    const std::string name = kPatternNames[static_cast<int>(pattern)];
    const size_t written =
        each_block(blocks_.size(), true, half, "writing " + name,
                   [&](const Chunk& chunk, size_t at) { write(pattern, chunk, at); });
    return each_block(written, true, Clock::time_point::max(), "reading " + name,
                      [&](const Chunk& chunk, size_t at) { read(pattern, chunk, at); });
  }

  // Zeros everywhere; then upwards each block is read and becomes ones; then downwards zeros again.
  size_t march(Clock::time_point end) {
    const auto now = Clock::now();
    const auto sixth = end == Clock::time_point::max() ? end : now + (end - now) / 6;
    const auto never = Clock::time_point::max();
    const size_t reached =
        each_block(blocks_.size(), true, sixth, "marching, zeros",
                   [&](const Chunk& chunk, size_t at) { write(Pattern::kZero, chunk, at); });
    each_block(reached, true, never, "marching upwards, ones", [&](const Chunk& chunk, size_t at) {
      read(Pattern::kZero, chunk, at);
      write(Pattern::kOne, chunk, at);
    });
    each_block(reached, false, never, "marching downwards, zeros",
               [&](const Chunk& chunk, size_t at) {
                 read(Pattern::kOne, chunk, at);
                 write(Pattern::kZero, chunk, at);
                 read(Pattern::kZero, chunk, at);
               });
    return reached;
  }

  const Part& part_;
  ndl_device_t* device_;
  const int hbm_;
  const uint32_t core_;
  const Scratch scratch_;
  const Clock::time_point end_ = Clock::now() + part_.budget;
  std::vector<Chunk> chunks_;
  std::vector<Block> blocks_;
  std::vector<uint64_t> data_, back_;
  static constexpr unsigned kMostFailures = 8;
  unsigned failures_ = 0;
  std::set<std::string> told_;  // addresses of bad lines
};

// Copies in and out, of the driver's buffer and of ours, and within the device.
void check_copies(const Part& part, ndl_device_t* device, int hbm, uint32_t core) {
  Finding finding;
  finding.check = "dma.copy";
  finding.device = part.device;
  finding.core = static_cast<int>(core);
  finding.found = "copies of host and device";
  tell_step(finding);
  const size_t bytes = part.level == 1 ? 1 << 20 : 8 << 20;
  std::vector<uint64_t> data(bytes / 8), back(bytes / 8);
  for (size_t i = 0; i < data.size(); ++i) data[i] = mixed(i + core);
  uint64_t handles[2] = {};
  // `source`: what was read, if it was memory of the device.
  const auto fail = [&](const std::string& doing, uint64_t source) {
    const std::string sentence = ndl_last_error();
    const bool gone = sentence.find("does not answer") != std::string::npos;
    finding.verdict = Verdict::kFail;
    const Scratch scratch(device, hbm, core);
    const auto line = source == 0 || gone || !scratch.good()
                          ? std::nullopt
                          : scratch.find_bad_line(source, 0, data.size() * 8);
    if (line) {
      uint64_t address = 0;
      ndl_memory_get_pa(source, &address);
      blame_memory(finding, hbm, address + *line, sentence);
      return tell_finding(finding);
    }
    finding.found = doing + ": " + sentence;
    finding.expected = "a copy that ends";
    finding.action = gone ? Action::kReboot : Action::kReplaceInstance;
    place_from_sentence(sentence, finding);
    tell_finding(finding);
  };
  const auto run = [&] {
    for (uint64_t& handle : handles) {
      if (ndl_memory_alloc(device, bytes, 0, 0, static_cast<uint32_t>(hbm), 0, core,
                           NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &handle) == 0) {
        continue;
      }
      finding.verdict = Verdict::kSkip;
      finding.found = "no memory is free: " + std::string(ndl_last_error());
      tell_finding(finding);
      return;
    }
    const auto start = Clock::now();
    if (ndl_memory_buf_copyin(handles[0], data.data(), 0, bytes) != 0) {
      return fail("from host to device", 0);
    }
    const auto written = Clock::now();
    if (ndl_memory_copy(handles[0], handles[1], 0, 0, bytes) != 0) {
      return fail("within the device", handles[0]);
    }
    const auto copied = Clock::now();
    if (ndl_memory_buf_copyout(handles[1], back.data(), 0, bytes) != 0) {
      return fail("from device to host", handles[1]);
    }
    const auto end = Clock::now();
    for (size_t i = 0; i < data.size(); ++i) {
      if (data[i] == back[i]) continue;
      uint64_t address = 0;
      ndl_memory_get_pa(handles[1], &address);
      finding.verdict = Verdict::kFail;
      finding.address = hex(address + 8 * i);
      finding.found = "found " + hex(back[i]) + " after copies in, within and out";
      finding.expected = hex(data[i]);
      finding.action = Action::kReplaceInstance;
      return tell_finding(finding);
    }
    const auto rate = [&](auto from, auto to) {
      const double seconds = std::chrono::duration<double>(to - from).count();
      char text[32];
      std::snprintf(text, sizeof text, "%.1f GB/s", static_cast<double>(bytes) / seconds * 1e-9);
      return std::string(text);
    };
    finding.found = "in " + rate(start, written) + ", within " + rate(written, copied) + ", out " +
                    rate(copied, end);
    tell_finding(finding);
  };
  run();
  for (const uint64_t handle : handles) {
    if (handle != 0) ndl_memory_free(handle);
  }
}

}  // namespace

void check_memory(const Part& part) {
  Finding finding;
  finding.check = "memory.pattern";
  finding.device = part.device;
  finding.found = "opening the device";
  tell_step(finding);
  ndl_observation_t seen{};
  seen.size = sizeof seen;
  ndl_device_t* device = nullptr;
  if (ndl_observe_device(part.device, 2000, &seen) != 0 ||
      ndl_open_device(part.device, nullptr, &device) != 0) {
    finding.verdict = Verdict::kFail;
    finding.found = ndl_last_error();
    finding.expected = "a device that can be opened";
    finding.action = finding.found.find("does not answer") != std::string::npos
                         ? Action::kReboot
                         : Action::kResetDevice;
    tell_finding(finding);
    return;
  }
  const int stacks = telemetry::generation_of(seen.architecture).hbm_stacks;
  const auto cores = std::max(seen.cores, 1u);
  const auto begun = Clock::now();
  for (int hbm = 0; hbm < stacks; ++hbm) {
    const uint32_t core = static_cast<uint32_t>(hbm) * cores / stacks;
    Part stack = part;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(begun + part.budget - Clock::now());
    // At least a millisecond: 0 is no limit.
    if (part.budget.count() != 0) {
      stack.budget = std::max(left / (stacks - hbm), std::chrono::milliseconds(1));
    }
    MemoryCheck(stack, device, hbm, core).run(part.bytes / static_cast<unsigned>(stacks));
  }
  for (uint32_t core = 0; core < cores; ++core) {
    check_copies(part, device, static_cast<int>(core) * stacks / static_cast<int>(cores), core);
  }
  ndl_close_device(device);
}

}  // namespace neuron::checks
