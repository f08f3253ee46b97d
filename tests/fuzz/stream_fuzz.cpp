// SPDX-License-Identifier: Apache-2.0
// Fuzz target of compressed streams: any bytes as a stream, as the body of a stream with a right
// header, and as content. Nothing may be read or written outside the two sides, what is accepted
// has its checksum, and content comes back.
//
// An input is 1 byte of choice, 2 bytes of length, and the bytes.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "driver/base/crc32c.h"
#include "driver/compression/stream.h"

namespace {

using namespace neuron::compression;

// Copies of exactly these lengths, so that a sanitizer sees a byte too many on either side.
void read_stream(const std::vector<uint8_t>& stream, size_t expected) {
  std::vector<uint8_t> content(expected);
  const Malformed malformed = decompress(stream, content);
  if (malformed) {
    if (malformed.at > stream.size()) std::abort();
    return;
  }
  StreamHeader header;
  if (read_header(stream, header) || header.content_bytes != expected ||
      header.stream_bytes() > stream.size() || neuron::base::crc32c(content) != header.checksum) {
    std::abort();
  }
}

void there_and_back(const std::vector<uint8_t>& content) {
  const std::vector<uint8_t> stream = compress(content);
  if (stream.size() > most_stream_bytes(content.size())) std::abort();
  std::vector<uint8_t> back(content.size());
  if (decompress(stream, back) || back != content) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const uint8_t choice = data[0];
  const size_t expected = 1 + (data[1] | size_t{data[2]} << 8);
  std::vector<uint8_t> bytes(data + 3, data + size);
  switch (choice % 4) {
    case 0:
      read_stream(bytes, expected);
      break;
    case 1: {  // a body that is read
      const uint32_t words[] = {NEURON_STREAM_MAGIC, static_cast<uint32_t>(expected),
                                static_cast<uint32_t>(bytes.size()), 0};
      bytes.insert(bytes.begin(), sizeof words, 0);
      std::memcpy(bytes.data(), words, sizeof words);
      read_stream(bytes, expected);
      break;
    }
    case 2:
      there_and_back(bytes);
      break;
    default: {  // a right stream with one byte of another value
      std::vector<uint8_t> stream = compress(bytes);
      stream[expected % stream.size()] ^= static_cast<uint8_t>(choice | 1);
      read_stream(stream, bytes.size());
      break;
    }
  }
  return 0;
}
