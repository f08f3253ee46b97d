// SPDX-License-Identifier: Apache-2.0
//
// One line of a trace of an NKI kernel: a declaration of memory, or one call of nki.isa with its
// operands, and the line of Python that made it. TRACE.md beside this file says what the lines are.
//
// Callers: lowering and the operations of this folder. Thread-safe: no. Owns its values.
// Fails like neff/json_object.h: the first error is kept, later readers return harmless values, and
// result() says what was wrong, with the number of the line.
#ifndef TOOLS_COMPILER_NKI_RECORD_H
#define TOOLS_COMPILER_NKI_RECORD_H

#include <boost/json/value.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/json_object.h"

namespace neuron::nki {

// `count` elements, `step` apart; in elements of the operand's type.
struct Span {
  int64_t step = 0;
  uint64_t count = 0;
};

// A part of a tile on the chip or of a tensor in HBM.
struct Operand {
  bool present = false;
  bool on_chip = false;
  uint32_t id = 0;  // Of a tile or a tensor
  uint8_t dtype = 0;
  uint32_t start = 0, parts = 0;  // Partitions of the tile
  uint64_t offset = 0;            // Bytes in the partition, or in the tensor
  std::vector<Span> pattern;      // Outermost first; of a tile without the partitions
  // Indirect: `count` elements of what the pattern names, by the offsets in this tile.
  std::shared_ptr<const Operand> index;
  uint64_t count = 0;

  uint64_t elements() const;  // Of one partition, or of the tensor's part
};

// A number, or one element of each partition of a tile.
struct ScalarOperand {
  bool is_number = false;
  double number = 0;
  Operand tile;
  bool present() const { return is_number || tile.present; }
};

class Record {
 public:
  // Reads the line `number` of the trace.
  Record(std::string_view text, uint64_t number);

  const std::string& operation() const { return operation_; }
  // Where in Python: an index of the header's files, and a line; 0 if the trace does not say.
  uint32_t file() const { return file_; }
  uint32_t line() const { return line_; }
  runtime::Result<void> result() const;
  bool ok() const { return checker_.ok(); }

  bool has(std::string_view key) { return fields_ && fields_->has(key); }
  Operand operand(std::string_view key);
  Operand operand_or_none(std::string_view key);
  std::vector<Operand> operands(std::string_view key, size_t most);
  // Every part of a tile or a tensor that the line names, with its key.
  std::vector<std::pair<std::string, Operand>> all_operands();
  ScalarOperand scalar(std::string_view key);
  ScalarOperand scalar_or_none(std::string_view key);
  double number(std::string_view key);
  double number_or(std::string_view key, double fallback);
  uint64_t count(std::string_view key, uint64_t most);
  uint64_t count_or(std::string_view key, uint64_t fallback, uint64_t most);
  int64_t integer_or(std::string_view key, int64_t fallback);
  bool flag(std::string_view key);
  std::string text(std::string_view key);
  std::string text_or(std::string_view key, std::string_view fallback);
  std::string long_text(std::string_view key, size_t most_bytes);
  std::vector<uint64_t> counts(std::string_view key, size_t most);
  std::vector<uint64_t> counts_or_none(std::string_view key, size_t most) {
    return has(key) ? counts(key, most) : std::vector<uint64_t>();
  }
  std::vector<int64_t> integers(std::string_view key, size_t most);
  std::vector<double> numbers(std::string_view key, size_t most);
  std::vector<std::string> texts(std::string_view key, size_t most);
  // A number of enum neuron_dtype.
  uint8_t dtype(std::string_view key);

 private:
  Operand read_operand(const boost::json::value& value, const neff::JsonPath& parent,
                       std::string_view key, bool is_index = false);
  std::vector<Span> read_pattern(neff::JsonObject& object);

  std::vector<std::string> notes_;
  neff::Checker checker_;
  std::optional<runtime::Error> syntax_;
  boost::json::value value_;
  std::unique_ptr<neff::JsonObject> fields_;
  std::string operation_;
  uint32_t file_ = 0, line_ = 0;
};

// The number of enum neuron_dtype with the name that NKI gives it ("float32"); none: unknown.
std::optional<uint8_t> dtype_of(std::string_view name);

}  // namespace neuron::nki

#endif
