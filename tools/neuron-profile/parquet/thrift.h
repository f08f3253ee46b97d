// SPDX-License-Identifier: Apache-2.0
//
// Thrift's compact protocol, as far as the metadata of Parquet needs it. Fields are written in
// ascending order of their numbers. Callers: TableWriter. Values; one thread. Cannot fail.
#ifndef TOOLS_NEURON_PROFILE_PARQUET_THRIFT_H
#define TOOLS_NEURON_PROFILE_PARQUET_THRIFT_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::profile::parquet {

class Thrift {
 public:
  static constexpr uint8_t kInt32 = 5, kInt64 = 6, kBinary = 8, kList = 9, kStruct = 12;

  void number(int field, int64_t value, uint8_t type = kInt32) {
    header(field, type);
    zigzag(value);
  }
  void text(int field, std::string_view value) {
    header(field, kBinary);
    plain_text(value);
  }
  void begin_struct(int field) {
    header(field, kStruct);
    begin_element();
  }
  // A struct that is an element of a list, or the outermost one.
  void begin_element() { last_.push_back(0); }
  void end() {
    bytes_ += '\0';
    last_.pop_back();
  }
  void begin_list(int field, size_t count, uint8_t type) {
    header(field, kList);
    if (count < 15) {
      bytes_ += static_cast<char>(count << 4 | type);
    } else {
      bytes_ += static_cast<char>(0xF0 | type);
      varint(count);
    }
  }
  // Elements of lists.
  void zigzag(int64_t value) {
    varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
  }
  void plain_text(std::string_view value) {
    varint(value.size());
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void header(int field, uint8_t type) {
    const int step = field - last_.back();
    last_.back() = field;
    if (step > 0 && step < 16) {
      bytes_ += static_cast<char>(step << 4 | type);
      return;
    }
    bytes_ += static_cast<char>(type);
    zigzag(field);
  }
  void varint(uint64_t value) {
    while (value >= 128) {
      bytes_ += static_cast<char>(value | 128);
      value >>= 7;
    }
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
  std::vector<int> last_;  // field of each struct that is open
};

}  // namespace neuron::profile::parquet

#endif
