// SPDX-License-Identifier: Apache-2.0
// Compressed streams (hw/compressed_stream.h): from content to stream and back, without loss.
//
// Callers: the emulated DMA engine, the loader of NEFFs, what writes NEFFs; any thread. The same
// content gives the same stream, always. compress() has 64 KiB on its stack; decompress() needs no
// memory of its own, writes nothing outside `content` and takes time in proportion to both sides,
// whatever the stream holds. Fails: only reading does, with the broken rule and the byte of the
// stream where it was noticed; what `content` holds then has no meaning.
#ifndef DRIVER_COMPRESSION_STREAM_H
#define DRIVER_COMPRESSION_STREAM_H

#include <cstdint>
#include <span>
#include <vector>

#include "hw/compressed_stream.h"

namespace neuron::compression {

struct StreamHeader {
  uint32_t content_bytes = 0;
  uint32_t body_bytes = 0;
  uint32_t checksum = 0;
  bool stored = false;  // the body is the content itself

  uint64_t stream_bytes() const { return uint64_t{NEURON_STREAM_HEADER_BYTES} + body_bytes; }
};

struct Malformed {
  const char* rule = nullptr;  // null: nothing is wrong
  uint32_t at = 0;             // byte of the stream
  explicit operator bool() const { return rule != nullptr; }
};

// Bytes of the longest stream of so much content.
constexpr uint64_t most_stream_bytes(uint64_t content_bytes) {
  return content_bytes + NEURON_STREAM_HEADER_BYTES;
}

// `content`: 1 to NEURON_STREAM_MAX_CONTENT bytes.
std::vector<uint8_t> compress(std::span<const uint8_t> content);

// Checks what the header says by itself; `stream` may end behind it.
Malformed read_header(std::span<const uint8_t> stream, StreamHeader& header);

// `content` has exactly the bytes that the caller expects, else the stream is refused.
Malformed decompress(std::span<const uint8_t> stream, std::span<uint8_t> content);

}  // namespace neuron::compression

#endif
