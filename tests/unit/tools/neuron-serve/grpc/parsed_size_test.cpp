// SPDX-License-Identifier: Apache-2.0
// What is counted of a message before it is parsed is never less than what parsing allocates.
#include "tools/neuron-serve/grpc/parsed_size.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <functional>
#include <random>

#include "tests/support/sanitized.h"
#include "tools/neuron-serve/grpc/inference.pb.h"

#ifdef NEURON_SANITIZED_BUILD
#include <sanitizer/allocator_interface.h>
#endif

namespace neuron::serve {
namespace {

using inference::ModelInferRequest;

// Bytes that the heap has given to the program; of a sanitizer's heap the system does not know.
size_t heap_in_use() {
#ifdef NEURON_SANITIZED_BUILD
  return __sanitizer_get_current_allocated_bytes();
#else
  const struct mallinfo2 heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
#endif
}

// Bytes of the heap that a request takes once it is parsed, at least.
size_t allocated_by(const std::string& message) {
  const size_t was = heap_in_use();
  ModelInferRequest request;
  (void)request.ParseFromString(message);
  const size_t in_use = heap_in_use();
  return in_use > was ? in_use - was : 0;
}

std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 128; value >>= 7) text += static_cast<char>(value | 128);
  return text + static_cast<char>(value);
}

std::string field(unsigned number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}

std::string repeated(size_t times, const std::function<std::string(size_t)>& piece) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += piece(i);
  return text;
}

const size_t kTimes = 20'000;

TEST(ParsedSize, CoversMessagesThatBecomeMuchLarger) {
  google::protobuf::SetLogHandler(nullptr);
  const auto same = [](const std::string& text) {
    return repeated(kTimes, [&](size_t) { return text; });
  };
  const std::string parameter = field(2, "\x08\x01");
  const std::string ones(kTimes, '\1');
  const std::pair<const char*, std::string> cases[] = {
      {"inputs without a field", same(field(5, ""))},
      {"outputs without a field", same(field(6, ""))},
      {"raw contents without a byte", same(field(7, ""))},
      {"inputs with contents", same(field(5, field(5, "")))},
      {"contents of bytes", field(5, field(5, same(field(8, ""))))},
      {"parameters",
       repeated(kTimes,
                [&](size_t i) { return field(4, field(1, std::to_string(i)) + parameter); })},
      {"parameters of inputs", field(5, repeated(kTimes,
                                                 [&](size_t i) {
                                                   return field(
                                                       4, field(1, std::to_string(i)) + parameter);
                                                 }))},
      {"int64 of a byte", field(5, field(5, field(3, ones)))},
      {"uint64 of a byte", field(5, field(5, field(5, ones)))},
      {"int32 of a byte", field(5, field(5, field(2, ones)))},
      {"bool", field(5, field(5, field(1, ones)))},
      {"int64 that are not in a row", field(5, field(5, same("\x18\x01")))},
      {"float that are not in a row", field(5, field(5, same(std::string("\x35\0\0\0\0", 5))))},
      {"sizes of a shape", field(5, field(3, ones))},
      {"a list that leaves its message",
       field(5, field(5, varint(3 << 3 | 2) + varint(kTimes))) + field(7, ones)},
      {"unknown numbers", same("\x78\x01")},
      {"unknown texts", same(field(15, ""))},
      {"unknown groups", same("\x7b\x7c")},
      {"texts of forty characters", same(field(7, std::string(40, 'x')))},
  };
  for (const auto& [name, message] : cases) {
    const size_t taken = allocated_by(message);
    EXPECT_LE(taken, parsed_size(message)) << name << ", " << message.size() << " bytes";
    // Each of these is a case at all.
    EXPECT_GT(taken, message.size() / 2) << name;
  }
}

TEST(ParsedSize, IsNotFarAboveWhatUsualRequestsTake) {
  ModelInferRequest raw;
  raw.add_inputs()->set_name("x");
  raw.add_raw_input_contents(std::string(1 << 20, '\7'));
  EXPECT_LE(parsed_size(raw.SerializeAsString()), (1u << 20) + 4096);
  ModelInferRequest typed;
  auto& contents = *typed.add_inputs()->mutable_contents();
  for (int i = 0; i < 1 << 18; ++i) contents.add_fp32_contents(0.1F);
  EXPECT_LE(parsed_size(typed.SerializeAsString()), (3u << 20) + 4096);
}

TEST(ParsedSize, CoversWhatIsDamaged) {
  google::protobuf::SetLogHandler(nullptr);
  ModelInferRequest request;
  for (int i = 0; i < 50; ++i) {
    auto& input = *request.add_inputs();
    input.set_name("x" + std::to_string(i));
    input.add_shape(i);
    (*input.mutable_parameters())["p" + std::to_string(i)].set_string_param("text");
    for (int k = 0; k < 200; ++k) input.mutable_contents()->add_int64_contents(k);
    request.add_outputs()->set_name("y");
  }
  const std::string whole = request.SerializeAsString();
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = whole.substr(0, i % 2 == 0 ? whole.size() : random() % whole.size());
    for (int n = 0; n < 3 && !damaged.empty(); ++n) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    EXPECT_LE(allocated_by(damaged), parsed_size(damaged)) << i;
  }
}

}  // namespace
}  // namespace neuron::serve
