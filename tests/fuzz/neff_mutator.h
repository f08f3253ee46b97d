// SPDX-License-Identifier: Apache-2.0
//
// Changes one thing in one member of a NEFF and leaves the rest well-formed: a value of a JSON
// file, or a field of an engine binary whose checksums are corrected afterwards.
// Callers: neff_fuzz. Thread-safe: no state. Deterministic for a given generator.
#ifndef TESTS_FUZZ_NEFF_MUTATOR_H
#define TESTS_FUZZ_NEFF_MUTATOR_H

#include <boost/json.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "driver/base/crc32c.h"
#include "driver/base/little_endian.h"
#include "hw/neff_program.h"
#include "runtime/neff/header.h"

namespace neuron::fuzz {

using Random = std::minstd_rand;
namespace json = boost::json;

inline uint64_t interesting(Random& random) {
  constexpr uint64_t kNumbers[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   8,
                                   15,
                                   16,
                                   17,
                                   20,
                                   32,
                                   64,
                                   127,
                                   128,
                                   255,
                                   256,
                                   512,
                                   1023,
                                   4096,
                                   65535,
                                   65536,
                                   0x40000,
                                   0xFFFFFF,
                                   0x7FFFFFFF,
                                   0x80000000,
                                   0xFFFFFFFF,
                                   0x100000000,
                                   0x7FFFFFFFFFFFFFFF,
                                   0x8000000000000000,
                                   0xFFFFFFFFFFFFFFFF};
  return random() % 4 ? kNumbers[random() % std::size(kNumbers)] : random() % 4096;
}

class JsonMutator {
 public:
  explicit JsonMutator(Random& random) : random_(random) {}

  // False: the text is no JSON, or has nothing to change.
  bool change(std::vector<uint8_t>& bytes) {
    json::error_code error;
    json::parse_options options;
    options.max_depth = 64;
    json::value document = json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                       error, {}, options);
    if (error) return false;
    collect(document);
    if (values_.empty()) return false;
    mutate(*values_[random_() % values_.size()]);
    const std::string text = json::serialize(document);
    bytes.assign(text.begin(), text.end());
    return true;
  }

 private:
  void collect(json::value& value) {
    values_.push_back(&value);
    if (value.is_string()) texts_.emplace_back(value.get_string().c_str());
    if (json::array* list = value.if_array()) {
      for (json::value& item : *list) collect(item);
    }
    if (json::object* object = value.if_object()) {
      for (auto& entry : *object) {
        texts_.emplace_back(entry.key());
        collect(entry.value());
      }
    }
  }
  const std::string& text() {
    static const std::string kFields[] = {
        "from_arr",  "from_steps", "from_sizes",     "from_dtype",    "op",
        "transpose", "fma",        "instance_name",  "event",         "function_start",
        "dynamic",   "scale",      "constant_dtype", "semaphore_set", "remote_semaphores"};
    return texts_.empty() || random_() % 4 == 0 ? kFields[random_() % std::size(kFields)]
                                                : texts_[random_() % texts_.size()];
  }
  void mutate(json::value& value) {
    if (json::array* list = value.if_array(); list && !list->empty()) {
      const size_t i = random_() % list->size();
      json::value copy = (*list)[i];
      random_() % 3 == 0 ? void(list->erase(list->begin() + static_cast<ptrdiff_t>(i)))
                         : list->push_back(std::move(copy));
      return;
    }
    if (json::object* object = value.if_object(); object && !object->empty()) {
      auto entry = object->begin() + static_cast<ptrdiff_t>(random_() % object->size());
      json::value copy = entry->value();
      if (random_() % 2) object->erase(entry);
      (*object)[text()] = random_() % 2 ? std::move(copy) : json::value(interesting(random_));
      return;
    }
    switch (random_() % 6) {
      case 0:
        value = text();
        break;
      case 1:
        value = -static_cast<int64_t>(interesting(random_) >> 1);
        break;
      case 2:
        value = json::array{interesting(random_), interesting(random_)};
        break;
      default:
        value = interesting(random_);
    }
  }
  Random& random_;
  std::vector<json::value*> values_;
  std::vector<std::string> texts_;
};

inline void fix_checksums(std::vector<uint8_t>& binary) {
  if (binary.size() < NEURON_BIN_HEADER_BYTES) return;
  const neff::Bytes all(binary);
  base::store_little(binary.data() + NEURON_BIN_OFF_CRC,
                     base::crc32c(all.subspan(NEURON_BIN_HEADER_BYTES)));
  base::store_little(binary.data() + NEURON_BIN_OFF_HEADER_CRC,
                     base::crc32c(all.first(NEURON_BIN_OFF_HEADER_CRC)));
}

// One field of the header, of an entry, a relocation, a line or an instruction.
inline bool change_binary(std::vector<uint8_t>& binary, Random& random) {
  if (binary.size() < NEURON_BIN_HEADER_BYTES) return false;
  const auto word = [&](uint32_t at) { return base::load_little<uint32_t>(binary.data() + at); };
  struct Table {
    uint32_t field, record;
  };
  constexpr Table kTables[] = {{NEURON_BIN_OFF_ENTRY_OFF, NEURON_BIN_ENTRY_BYTES},
                               {NEURON_BIN_OFF_RELOC_OFF, NEURON_BIN_RELOC_BYTES},
                               {NEURON_BIN_OFF_RELOC_OFF, NEURON_BIN_RELOC_BYTES},
                               {NEURON_BIN_OFF_LINE_OFF, NEURON_BIN_LINE_BYTES},
                               {NEURON_BIN_OFF_CODE_OFF, 128}};
  uint64_t at = NEURON_BIN_OFF_VERSION + random() % (NEURON_BIN_OFF_CRC - 8);
  if (random() % 8) {
    const Table& table = kTables[random() % std::size(kTables)];
    const uint64_t count = word(table.field + 4);
    if (count != 0) {
      at = word(table.field) + random() % count * table.record + random() % table.record;
    }
  }
  const size_t width = size_t{1} << random() % 4;
  at = at / width * width;
  if (at + width > binary.size()) return false;
  const uint64_t value = interesting(random);
  for (size_t b = 0; b < width; ++b) {
    binary[at + b] = static_cast<uint8_t>(value >> (8 * b));
  }
  fix_checksums(binary);
  return true;
}

}  // namespace neuron::fuzz

#endif
