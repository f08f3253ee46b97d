// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "driver/base/crc32c.h"
#include "driver/compression/stream.h"

namespace neuron::compression {
namespace {

uint32_t field(std::span<const uint8_t> stream, size_t offset) {
  uint32_t word;
  std::memcpy(&word, &stream[offset], sizeof word);
  return word;
}

class Sequences {
 public:
  Sequences(std::span<const uint8_t> body, std::span<uint8_t> content)
      : body_(body), content_(content) {}

  // Null, or the broken rule, noticed at byte at() of the body.
  const char* run() {
    for (;;) {  // bounded: each pass takes a byte of the body at least
      if (at_ == body_.size()) return "the last sequence has a match, not literals alone";
      const uint8_t token = body_[at_++];
      if (const char* rule = copy_literals(token >> 4)) return rule;
      if (at_ == body_.size()) break;
      if (const char* rule = copy_match(token & 15)) return rule;
    }
    return written_ == content_.size() ? nullptr
                                       : "the sequences give fewer bytes than the header says";
  }
  size_t at() const { return at_; }

 private:
  // The number of a token, with the bytes that extend it. False: the body ends inside.
  bool extend(size_t number, size_t& out) {
    out = number;
    if (number != 15) return true;
    while (at_ < body_.size()) {
      const uint8_t more = body_[at_++];
      out += more;  // no overflow: as many as the body has bytes, of 255 each
      if (more != 255) return true;
    }
    return false;
  }

  const char* copy_literals(size_t number) {
    size_t count = 0;
    if (!extend(number, count)) return "the body ends inside a number of literals";
    if (count > body_.size() - at_) return "the body ends inside literals";
    if (count > content_.size() - written_) {
      return "the literals are more than the header says that the content has";
    }
    if (count != 0) std::memcpy(&content_[written_], &body_[at_], count);
    at_ += count;
    written_ += count;
    return nullptr;
  }

  const char* copy_match(size_t number) {
    if (body_.size() - at_ < 2) return "the body ends inside the distance of a match";
    const size_t distance = body_[at_] | size_t{body_[at_ + 1]} << 8;
    if (distance == 0 || distance > written_) {
      return "a match begins where nothing has been written yet";
    }
    at_ += 2;
    size_t length = 0;
    if (!extend(number, length)) return "the body ends inside the length of a match";
    length += NEURON_STREAM_LEAST_MATCH;
    if (length > content_.size() - written_) {
      return "a match is longer than the header says that the content has left";
    }
    // Byte by byte where it repeats itself.
    uint8_t* const to = &content_[written_];
    const uint8_t* const from = to - distance;
    if (distance >= length) {
      std::memcpy(to, from, length);
    } else {
      for (size_t i = 0; i < length; ++i) to[i] = from[i];
    }
    written_ += length;
    return nullptr;
  }

  std::span<const uint8_t> body_;
  std::span<uint8_t> content_;
  size_t at_ = 0;
  size_t written_ = 0;
};

}  // namespace

Malformed read_header(std::span<const uint8_t> stream, StreamHeader& header) {
  if (stream.size() < NEURON_STREAM_HEADER_BYTES) {
    return {"the stream ends inside its header of 16 bytes", static_cast<uint32_t>(stream.size())};
  }
  if (field(stream, NEURON_STREAM_OFF_MAGIC) != NEURON_STREAM_MAGIC) {
    return {"the bytes are no compressed stream: they do not begin with its magic number",
            NEURON_STREAM_OFF_MAGIC};
  }
  const uint32_t body = field(stream, NEURON_STREAM_OFF_BODY);
  header.content_bytes = field(stream, NEURON_STREAM_OFF_CONTENT);
  header.body_bytes = body & ~NEURON_STREAM_STORED;
  header.stored = (body & NEURON_STREAM_STORED) != 0;
  header.checksum = field(stream, NEURON_STREAM_OFF_CHECKSUM);
  if (header.content_bytes == 0 || header.content_bytes > NEURON_STREAM_MAX_CONTENT) {
    return {"the header says that the content has no bytes, or more than 1048575",
            NEURON_STREAM_OFF_CONTENT};
  }
  if (header.stored ? header.body_bytes != header.content_bytes
                    : header.body_bytes == 0 || header.body_bytes >= header.content_bytes) {
    return {"the header says that the body has a length that no writer gives such content",
            NEURON_STREAM_OFF_BODY};
  }
  return {};
}

Malformed decompress(std::span<const uint8_t> stream, std::span<uint8_t> content) {
  StreamHeader header;
  if (const Malformed malformed = read_header(stream, header)) return malformed;
  if (header.content_bytes != content.size()) {
    return {"the header gives the content another length than is expected here",
            NEURON_STREAM_OFF_CONTENT};
  }
  if (header.stream_bytes() > stream.size()) {
    return {"the stream ends inside its body", static_cast<uint32_t>(stream.size())};
  }
  const auto body = stream.subspan(NEURON_STREAM_HEADER_BYTES, header.body_bytes);
  if (header.stored) {
    std::memcpy(content.data(), body.data(), body.size());
  } else {
    Sequences sequences(body, content);
    if (const char* rule = sequences.run()) {
      return {rule, static_cast<uint32_t>(NEURON_STREAM_HEADER_BYTES + sequences.at())};
    }
  }
  if (base::crc32c(content) != header.checksum) {
    return {"the content does not have the checksum of the header", NEURON_STREAM_OFF_CHECKSUM};
  }
  return {};
}

}  // namespace neuron::compression
