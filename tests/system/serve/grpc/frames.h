// SPDX-License-Identifier: Apache-2.0
// HTTP/2 frames, headers and protobuf fields by hand, as RFC 9113, RFC 7541 and the encoding of
// protocol buffers have them: a client that shares no code with the server.
// Callers: any. No state. Nothing fails: what is malformed is so on purpose.
#ifndef TESTS_SYSTEM_SERVE_GRPC_FRAMES_H
#define TESTS_SYSTEM_SERVE_GRPC_FRAMES_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace neuron::serve_test {

inline const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum Frame : uint8_t { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kGoAway = 7 };
constexpr uint8_t kEndStream = 1, kEndHeaders = 4;

inline std::string big_endian(uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes; i-- > 0;) text += static_cast<char>(value >> (8 * i));
  return text;
}

inline std::string frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  return big_endian(static_cast<uint32_t>(payload.size()), 3) + static_cast<char>(type) +
         static_cast<char>(flags) + big_endian(stream, 4) + payload;
}

// Literal fields without indexing; no text is longer than 126 bytes.
inline std::string header_block(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string block;
  for (const auto& [name, value] : fields) {
    block += '\0';
    block += static_cast<char>(name.size()) + name;
    block += static_cast<char>(value.size()) + value;
  }
  return block;
}

inline std::string call_headers(const std::string& method, uint32_t stream = 1) {
  return frame(kHeaders, kEndHeaders, stream,
               header_block({{":method", "POST"},
                             {":scheme", "http"},
                             {":path", "/inference.GRPCInferenceService/" + method},
                             {":authority", "localhost"},
                             {"te", "trailers"},
                             {"content-type", "application/grpc"}}));
}

// A message of gRPC: not compressed, its length, the bytes.
inline std::string message(const std::string& bytes) {
  return '\0' + big_endian(static_cast<uint32_t>(bytes.size()), 4) + bytes;
}

inline std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 128; value >>= 7) text += static_cast<char>(value | 128);
  return text + static_cast<char>(value);
}
// A field of bytes, of text or of a message.
inline std::string field(unsigned number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
inline std::string field(unsigned number, uint64_t value) {
  return varint(number << 3) + varint(value);
}

// An inference of `rows` digits: model_name 1, inputs 5 {name 1, datatype 2, shape 3 (packed)},
// raw_input_contents 7.
inline std::string digits_request(size_t rows, const std::string& bytes) {
  return field(1, "digits") +
         field(5, field(1, "x") + field(2, "FP32") + field(3, varint(rows) + varint(64))) +
         field(7, bytes);
}

}  // namespace neuron::serve_test

#endif
