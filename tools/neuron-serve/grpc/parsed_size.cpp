// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/grpc/parsed_size.h"

#include <algorithm>
#include <cstdint>

namespace neuron::serve {
namespace {

// What a field takes at least: the first element makes a list, and what is kept of fields that the
// protocol does not have is a list, too.
constexpr size_t kScalar = 112;
// A text or a list of bytes, besides its characters.
constexpr size_t kText = 176;
// A message inside, with its empty lists and texts. More than the largest of inference.proto.
constexpr size_t kMessage = 512;
// A list that grows by doubling has the old and the new elements for a moment.
constexpr size_t kGrowth = 3;

// What a field with a length is, by the message that it stands in.
enum class Kind : uint8_t { kRequest, kInput, kContents, kOutput, kEntry, kParameter, kOther };

// What a field with a length is: a message, a list of numbers, or bytes.
struct Field {
  Kind message = Kind::kOther;
  size_t number_bytes = 0;  // each, of a list of numbers
  bool grows = false;       // a list of numbers that stand there as they are kept
};

Field field_of_contents(uint64_t number) {
  switch (number) {
    case 1:  // bool
      return {Kind::kOther, 1};
    case 2:  // int32, uint32
    case 4:
      return {Kind::kOther, 4};
    case 3:  // int64, uint64
    case 5:
      return {Kind::kOther, 8};
    case 6:  // float, double
    case 7:
      return {Kind::kOther, 0, true};
    default:
      return {};
  }
}

Field field_of(Kind of, uint64_t number) {
  switch (of) {
    case Kind::kRequest:
      if (number == 4) return {Kind::kEntry};
      if (number == 5) return {Kind::kInput};
      return number == 6 ? Field{Kind::kOutput} : Field{};
    case Kind::kInput:
      if (number == 3) return {Kind::kOther, 8};
      if (number == 4) return {Kind::kEntry};
      return number == 5 ? Field{Kind::kContents} : Field{};
    case Kind::kContents:
      return field_of_contents(number);
    case Kind::kOutput:
      return number == 2 ? Field{Kind::kEntry} : Field{};
    case Kind::kEntry:
      return number == 2 ? Field{Kind::kParameter} : Field{};
    default:
      return {};
  }
}

// False: there is none.
bool take_varint(std::string_view& text, uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < text.size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    value |= static_cast<uint64_t>(byte & 127) << (7 * i);
    if (byte >= 128) continue;
    text.remove_prefix(i + 1);
    return true;
  }
  return false;
}

// Each number of a list ends with a byte below 128.
size_t count_numbers(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return static_cast<uint8_t>(byte) < 128; }));
}

class Counter {
 public:
  explicit Counter(std::string_view message) : end_(message.data() + message.size()) {}

  // As deep as the messages of inference.proto are: four.
  size_t size_of(Kind kind, std::string_view text) {
    size_t size = 0;
    uint64_t tag = 0, length = 0;
    while (!over_ && take_varint(text, tag)) {
      switch (tag & 7) {
        case 0:
          size += kScalar;
          over_ = !take_varint(text, length);
          break;
        case 1:
        case 5:
          size += kScalar;
          length = (tag & 7) == 1 ? 8 : 4;
          over_ = text.size() < length;
          text.remove_prefix(std::min<uint64_t>(length, text.size()));
          break;
        case 2:
          over_ = !take_varint(text, length);
          if (!over_) size += take_field(field_of(kind, tag >> 3), text, length);
          break;
        case 3:  // a group, which the protocol does not have: its fields are kept as they come
          size += kText;
          break;
        case 4:
          break;
        default:
          over_ = true;
      }
    }
    return size;
  }

 private:
  size_t take_field(const Field& field, std::string_view& text, uint64_t length) {
    if (length <= text.size()) {
      const std::string_view bytes = text.substr(0, length);
      text.remove_prefix(length);
      return size_of_field(field, bytes);
    }
    // The parser reads what is said to be longer than the message it stands in to the end of all,
    // and then it gives up.
    const std::string_view rest(text.data(), static_cast<size_t>(end_ - text.data()));
    const size_t size = size_of_field(field, rest.substr(0, length));
    over_ = true;
    return size;
  }

  size_t size_of_field(const Field& field, std::string_view text) {
    if (field.message != Kind::kOther) return kMessage + size_of(field.message, text);
    if (field.number_bytes != 0) {
      return kText + kGrowth * field.number_bytes * count_numbers(text);
    }
    return kText + (field.grows ? kGrowth : 1) * text.size();
  }

  const char* const end_;
  bool over_ = false;  // the parser gives up here
};

}  // namespace

size_t parsed_size(std::string_view message) {
  return kMessage + Counter(message).size_of(Kind::kRequest, message);
}

}  // namespace neuron::serve
