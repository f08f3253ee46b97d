// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/nki/record.h"

#include <boost/json.hpp>
#include <cmath>

#include "driver/isa/instruction.h"
#include "runtime/neff/json_document.h"

namespace neuron::nki {

using runtime::Result;

namespace {

namespace json = boost::json;

constexpr neff::JsonLimits kLineLimits{.bytes = 64u << 20, .depth = 16, .values = 4u << 20};
constexpr size_t kMostSpans = 16;
constexpr uint64_t kMostElements = uint64_t{1} << 40;
constexpr int64_t kMostReach = int64_t{1} << 44;  // Of a dimension, in elements

struct TypeName {
  const char* name;
  uint8_t dtype;
};
constexpr TypeName kTypes[] = {{"float32", NEURON_DTYPE_F32},
                               {"bfloat16", NEURON_DTYPE_BF16},
                               {"float16", NEURON_DTYPE_F16},
                               {"int32", NEURON_DTYPE_I32},
                               {"uint32", NEURON_DTYPE_U32},
                               {"int16", NEURON_DTYPE_I16},
                               {"uint16", NEURON_DTYPE_U16},
                               {"int8", NEURON_DTYPE_I8},
                               {"uint8", NEURON_DTYPE_U8},
                               {"bool", NEURON_DTYPE_U8},
                               {"tfloat32", NEURON_DTYPE_TF32},
                               {"float8_e4m3", NEURON_DTYPE_F8E4},
                               {"float8_e5m2", NEURON_DTYPE_F8E5},
                               {"float8_e4m3fn", NEURON_DTYPE_F8E4FN},
                               {"float8_e8m0fnu", NEURON_DTYPE_E8M0},
                               {"float4_e2m1fn_x4", NEURON_DTYPE_F4X4},
                               {"float8_e5m2_x4", NEURON_DTYPE_F8E5X4},
                               {"float8_e4m3fn_x4", NEURON_DTYPE_F8E4FNX4}};

}  // namespace

std::optional<uint8_t> dtype_of(std::string_view name) {
  for (const TypeName& type : kTypes) {
    if (type.name == name) return type.dtype;
  }
  return std::nullopt;
}

uint64_t Operand::elements() const {
  uint64_t count = 1;
  for (const Span& span : pattern) count *= span.count;
  return count;
}

Record::Record(std::string_view text, uint64_t number)
    : checker_(base::format("line {}", number), notes_) {
  auto parsed = neff::parse_json({reinterpret_cast<const uint8_t*>(text.data()), text.size()},
                                 checker_.member(), kLineLimits);
  if (!parsed) {
    syntax_ = parsed.error();
    // A record is one line, the only one that the reader of JSON sees.
    const std::string its = ": line 1, ";
    if (const size_t at = syntax_->sentence.find(its); at != std::string::npos) {
      syntax_->sentence.replace(at, its.size(), ", ");
    }
    return;
  }
  value_ = std::move(*parsed);
  fields_ = std::make_unique<neff::JsonObject>(checker_, value_, nullptr, "");
  operation_ = fields_->text("op");
  const auto at = fields_->numbers("at", 2, 0, INT32_MAX);
  if (at.size() == 2) {
    file_ = static_cast<uint32_t>(at[0]);
    line_ = static_cast<uint32_t>(at[1]);
  }
}

Result<void> Record::result() const {
  if (syntax_) return *syntax_;
  return checker_.result();
}

std::vector<Span> Record::read_pattern(neff::JsonObject& object) {
  std::vector<Span> pattern;
  const json::array* list = object.list("pattern", kMostSpans);
  if (list == nullptr) return pattern;
  uint64_t elements = 1;
  for (const json::value& entry : *list) {
    const json::array* pair = entry.if_array();
    boost::system::error_code step_error, count_error;
    int64_t step = 0, count = 0;
    if (pair != nullptr && pair->size() == 2) {
      step = (*pair)[0].to_number<int64_t>(step_error);
      count = (*pair)[1].to_number<int64_t>(count_error);
    }
    if (pair == nullptr || pair->size() != 2 || step_error || count_error || count < 1 ||
        step > kMostReach / count || step < -kMostReach / count ||
        static_cast<uint64_t>(count) > kMostElements / elements) {
      checker_.fail(object.at("pattern"),
                    "expected up to {} pairs [step, count] with counts from 1 and at most 2^40 "
                    "elements in all",
                    kMostSpans);
      return {};
    }
    elements *= static_cast<uint64_t>(count);
    pattern.push_back({step, static_cast<uint64_t>(count)});
  }
  return pattern;
}

Operand Record::read_operand(const json::value& value, const neff::JsonPath& parent,
                             std::string_view key, bool is_index) {
  Operand operand;
  neff::JsonObject object(checker_, value, &parent, key);
  operand.on_chip = object.has("tile");
  operand.id =
      static_cast<uint32_t>(object.number(operand.on_chip ? "tile" : "hbm", 0, UINT32_MAX));
  const std::string type = object.text("dtype");
  const auto dtype = dtype_of(type);
  if (!dtype) {
    checker_.fail(object.at("dtype"), "\"{}\" is no data type of this generation", type);
    return {};
  }
  operand.dtype = *dtype;
  operand.offset = object.number_or("offset", 0, 0, kMostElements);
  operand.pattern = read_pattern(object);
  if (operand.on_chip) {
    operand.start = static_cast<uint32_t>(object.number_or("start", 0, 0, NEURON_PARTITIONS - 1));
    operand.parts = static_cast<uint32_t>(object.number("parts", 1, NEURON_PARTITIONS));
  }
  if (object.has("index")) {
    if (is_index || !operand.on_chip) {
      checker_.fail(object.at("index"),
                    "only a part of a tile is reached by offsets, and its index is not");
      return {};
    }
    operand.index = std::make_shared<const Operand>(
        read_operand(object.require("index"), object.path(), "index", true));
    operand.count = object.number("elements", 1, UINT16_MAX);
  }
  operand.present = checker_.ok();
  return operand;
}

Operand Record::operand(std::string_view key) {
  if (!fields_) return {};
  return read_operand(fields_->require(key), fields_->path(), key);
}

Operand Record::operand_or_none(std::string_view key) {
  return has(key) ? operand(key) : Operand{};
}

std::vector<Operand> Record::operands(std::string_view key, size_t most) {
  std::vector<Operand> list;
  if (!fields_) return list;
  const json::array* array = fields_->list(key, most);
  if (array == nullptr) return list;
  for (const json::value& value : *array) {
    list.push_back(read_operand(value, fields_->path(), key));
  }
  return list;
}

std::vector<std::pair<std::string, Operand>> Record::all_operands() {
  std::vector<std::pair<std::string, Operand>> all;
  const json::object* line = value_.if_object();
  if (!fields_ || line == nullptr) return all;
  const auto names_memory = [](const json::value& value) {
    const json::object* object = value.if_object();
    return object != nullptr && (object->contains("tile") || object->contains("hbm"));
  };
  for (const auto& entry : *line) {
    const std::string key(entry.key());
    if (names_memory(entry.value())) {
      all.emplace_back(key, operand(key));
      if (const auto index = all.back().second.index) all.emplace_back("index", *index);
    }
    const json::array* list = entry.value().if_array();
    if (list == nullptr) continue;
    for (const json::value& value : *list) {
      if (names_memory(value)) all.emplace_back(key, read_operand(value, fields_->path(), key));
    }
  }
  return all;
}

ScalarOperand Record::scalar(std::string_view key) {
  ScalarOperand scalar;
  if (!fields_) return scalar;
  const json::value& value = fields_->require(key);
  if (value.is_object()) {
    scalar.tile = operand(key);
  } else {
    scalar.number = number(key);
    scalar.is_number = true;
  }
  return scalar;
}

ScalarOperand Record::scalar_or_none(std::string_view key) {
  return has(key) ? scalar(key) : ScalarOperand{};
}

// JSON has no infinities and no NaN: they are the texts "inf", "-inf" and "nan".
double Record::number(std::string_view key) {
  if (!fields_) return 0;
  const json::value& value = fields_->require(key);
  if (value.is_string()) {
    const std::string_view text = value.get_string();
    if (text == "inf") return INFINITY;
    if (text == "-inf") return -INFINITY;
    if (text == "nan") return NAN;
  }
  boost::system::error_code error;
  const auto number = value.is_number() ? value.to_number<double>(error) : 0.0;
  if (!value.is_number() || error) {
    checker_.fail(fields_->at(key), "expected a number, or \"inf\", \"-inf\", \"nan\"");
  }
  return number;
}

double Record::number_or(std::string_view key, double fallback) {
  return has(key) ? number(key) : fallback;
}

uint64_t Record::count(std::string_view key, uint64_t most) {
  return fields_ ? fields_->number(key, 0, most) : 0;
}

uint64_t Record::count_or(std::string_view key, uint64_t fallback, uint64_t most) {
  return fields_ ? fields_->number_or(key, fallback, 0, most) : fallback;
}

int64_t Record::integer_or(std::string_view key, int64_t fallback) {
  if (!has(key)) return fallback;
  const json::value& value = fields_->require(key);
  boost::system::error_code error;
  const auto number = value.is_number() ? value.to_number<int64_t>(error) : 0;
  if (!value.is_number() || error) checker_.fail(fields_->at(key), "expected an integer");
  return number;
}

bool Record::flag(std::string_view key) { return fields_ && fields_->boolean_or(key, false); }

std::string Record::text(std::string_view key) { return fields_ ? fields_->text(key) : ""; }

std::string Record::text_or(std::string_view key, std::string_view fallback) {
  return fields_ ? fields_->text_or(key, fallback) : std::string(fallback);
}

std::string Record::long_text(std::string_view key, size_t most_bytes) {
  return fields_ ? fields_->text(key, most_bytes) : "";
}

std::vector<uint64_t> Record::counts(std::string_view key, size_t most) {
  return fields_ ? fields_->numbers(key, most, 0, kMostElements) : std::vector<uint64_t>{};
}

std::vector<int64_t> Record::integers(std::string_view key, size_t most) {
  return fields_ ? fields_->signed_numbers(key, most) : std::vector<int64_t>{};
}

std::vector<double> Record::numbers(std::string_view key, size_t most) {
  std::vector<double> list;
  if (!fields_) return list;
  const json::array* array = fields_->list(key, most);
  if (array == nullptr) return list;
  for (const json::value& value : *array) {
    boost::system::error_code error;
    list.push_back(value.is_number() ? value.to_number<double>(error) : 0.0);
    if (!value.is_number() || error) checker_.fail(fields_->at(key), "expected numbers");
  }
  return list;
}

std::vector<std::string> Record::texts(std::string_view key, size_t most) {
  return fields_ ? fields_->texts(key, most) : std::vector<std::string>{};
}

uint8_t Record::dtype(std::string_view key) {
  const std::string name = text(key);
  const auto dtype = dtype_of(name);
  if (!dtype && fields_) {
    checker_.fail(fields_->at(key), "\"{}\" is no data type of this generation", name);
  }
  return dtype.value_or(NEURON_DTYPE_NONE);
}

}  // namespace neuron::nki
