// SPDX-License-Identifier: Apache-2.0
// Greedy search for matches through a table of the last place of each hash of four bytes.
#include <algorithm>
#include <array>
#include <cstring>

#include "driver/base/crc32c.h"
#include "driver/compression/stream.h"

namespace neuron::compression {
namespace {

constexpr size_t kMostDistance = 0xFFFF;
constexpr unsigned kHashBits = 14;
// Other readers of the block format copy in larger units and rely on this room at the end.
constexpr size_t kLastLiterals = 5;
constexpr size_t kNoMatchFrom = 12;
// After so many places without a match the search looks at every second one, and so on.
constexpr unsigned kPatience = 6;

uint32_t word_at(const uint8_t* at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

uint32_t hash_of(uint32_t word) { return word * 2654435761u >> (32 - kHashBits); }

class Compressor {
 public:
  Compressor(std::span<const uint8_t> content, std::vector<uint8_t>& out)
      : content_(content), out_(out), limit_(out.size() + content.size()) {}

  // False: the sequences are not shorter than the content.
  bool run() {
    const size_t n = content_.size();
    size_t at = 0;
    unsigned misses = 0;
    while (at + kNoMatchFrom <= n) {
      const size_t from = candidate(at);
      if (from == SIZE_MAX) {
        at += 1 + (misses++ >> kPatience);
        continue;
      }
      misses = 0;
      const size_t length = match_length(from, at);
      if (!sequence(at, length, at - from)) return false;
      at += length;
      done_ = at;
    }
    return sequence(n, 0, 0);
  }

 private:
  // The place of an earlier equal word that a match may reach, and notes this one.
  size_t candidate(size_t at) {
    const uint32_t word = word_at(&content_[at]);
    uint32_t& slot = last_[hash_of(word)];  // a place + 1; 0: none
    const size_t from = slot - size_t{1};
    slot = static_cast<uint32_t>(at + 1);
    if (from == SIZE_MAX || at - from > kMostDistance || word_at(&content_[from]) != word) {
      return SIZE_MAX;
    }
    return from;
  }

  size_t match_length(size_t from, size_t at) const {
    const size_t end = content_.size() - kLastLiterals;
    size_t length = NEURON_STREAM_LEAST_MATCH;
    while (at + length < end && content_[from + length] == content_[at + length]) ++length;
    return length;
  }

  // The literals from done_ to `end`, and a match of `length` bytes behind them; 0: none, the end.
  bool sequence(size_t end, size_t length, size_t distance) {
    const size_t literals = end - done_;
    const size_t beyond = length == 0 ? 0 : length - NEURON_STREAM_LEAST_MATCH;
    out_.push_back(
        static_cast<uint8_t>(std::min<size_t>(literals, 15) << 4 | std::min<size_t>(beyond, 15)));
    extend(literals);
    if (out_.size() + literals >= limit_) return false;
    out_.insert(out_.end(), content_.begin() + static_cast<ptrdiff_t>(done_),
                content_.begin() + static_cast<ptrdiff_t>(end));
    if (length == 0) return out_.size() < limit_;
    out_.push_back(static_cast<uint8_t>(distance));
    out_.push_back(static_cast<uint8_t>(distance >> 8));
    extend(beyond);
    return out_.size() < limit_;
  }

  void extend(size_t number) {
    if (number < 15) return;
    for (number -= 15; number >= 255; number -= 255) out_.push_back(255);
    out_.push_back(static_cast<uint8_t>(number));
  }

  std::span<const uint8_t> content_;
  std::vector<uint8_t>& out_;
  const size_t limit_;
  size_t done_ = 0;
  std::array<uint32_t, size_t{1} << kHashBits> last_{};
};

}  // namespace

std::vector<uint8_t> compress(std::span<const uint8_t> content) {
  std::vector<uint8_t> out(NEURON_STREAM_HEADER_BYTES);
  out.reserve(most_stream_bytes(content.size()));
  const bool stored = !Compressor(content, out).run();
  if (stored) {
    out.resize(NEURON_STREAM_HEADER_BYTES);
    out.insert(out.end(), content.begin(), content.end());
  }
  const auto body = static_cast<uint32_t>(out.size() - NEURON_STREAM_HEADER_BYTES);
  const uint32_t words[] = {NEURON_STREAM_MAGIC, static_cast<uint32_t>(content.size()),
                            body | (stored ? NEURON_STREAM_STORED : 0), base::crc32c(content)};
  static_assert(sizeof words == NEURON_STREAM_HEADER_BYTES);
  std::memcpy(out.data(), words, sizeof words);
  return out;
}

}  // namespace neuron::compression
