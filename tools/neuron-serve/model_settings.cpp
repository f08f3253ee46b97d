// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/model_settings.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace neuron::serve {
namespace {

constexpr uint32_t kLargest = 1u << 30;
constexpr size_t kMostSizes = 16;

bool to_size(const boost::json::value& value, uint32_t& size) {
  if (!value.is_int64() || value.get_int64() < 1 || value.get_int64() > kLargest) return false;
  size = static_cast<uint32_t>(value.get_int64());
  return true;
}

// Each returns what it expected, or nullptr.
const char* read_sizes(const boost::json::value& value, ModelSettings& settings) {
  constexpr const char* kExpected = "expected 1 to 16 batch sizes such as [1, 8, 32]";
  if (!value.is_array() || value.get_array().empty() || value.get_array().size() > kMostSizes) {
    return kExpected;
  }
  auto& sizes = settings.batch_sizes;
  sizes.clear();
  for (const auto& element : value.get_array()) {
    if (!to_size(element, sizes.emplace_back())) return kExpected;
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return nullptr;
}

const char* read_shapes(const boost::json::value& value, ModelSettings& settings) {
  constexpr const char* kExpected =
      "expected shapes by input such as {\"x\": [null, 3, 224, 224]}; null, in the first place "
      "only, is the batch size";
  if (!value.is_object()) return kExpected;
  for (const auto& field : value.get_object()) {
    if (!field.value().is_array() || field.value().get_array().empty()) return kExpected;
    auto& shape = settings.shapes[std::string(field.key())];
    for (const auto& element : field.value().get_array()) {
      const bool batch = element.is_null() && shape.empty();
      if (!to_size(element, shape.emplace_back(0)) && !batch) return kExpected;
    }
  }
  return nullptr;
}

const char* read_dimensions(const boost::json::value& value, ModelSettings& settings) {
  constexpr const char* kExpected = "expected sizes by name such as {\"sequence\": 128}";
  if (!value.is_object()) return kExpected;
  for (const auto& field : value.get_object()) {
    if (!to_size(field.value(), settings.dimensions[std::string(field.key())])) return kExpected;
  }
  return nullptr;
}

const char* read_constants(const boost::json::value& value, ModelSettings& settings) {
  constexpr const char* kExpected =
      "expected numbers or lists of numbers by input such as {\"rate\": 16000}";
  if (!value.is_object()) return kExpected;
  for (const auto& field : value.get_object()) {
    const auto& given = field.value();
    bool good = given.is_number();
    if (given.is_array() && !given.get_array().empty()) {
      const auto& list = given.get_array();
      good = std::all_of(list.begin(), list.end(), [](const auto& one) { return one.is_number(); });
    }
    if (!good) return kExpected;
    settings.constants[std::string(field.key())] = boost::json::serialize(given);
  }
  return nullptr;
}

const char* read_bool(const boost::json::value& value, bool& into) {
  if (!value.is_bool()) return "expected true or false";
  into = value.get_bool();
  return nullptr;
}

const char* read_cast(const boost::json::value& value, ModelSettings& settings) {
  if (value != "none" && value != "bf16" && value != "fp16") {
    return "expected \"none\", \"bf16\" or \"fp16\"";
  }
  settings.auto_cast = value.get_string();
  return nullptr;
}

const char* read_field(std::string_view name, const boost::json::value& value,
                       ModelSettings& settings) {
  if (name == "batched") return read_bool(value, settings.batched);
  if (name == "warm_up") return read_bool(value, settings.warm_up);
  if (name == "batch_sizes") return read_sizes(value, settings);
  if (name == "shapes") return read_shapes(value, settings);
  if (name == "dimensions") return read_dimensions(value, settings);
  if (name == "constants") return read_constants(value, settings);
  if (name == "auto_cast") return read_cast(value, settings);
  return "it is unknown; the fields are \"batched\", \"warm_up\", \"batch_sizes\", \"shapes\", "
         "\"dimensions\", \"constants\" and \"auto_cast\"";
}

}  // namespace

std::vector<std::string> ModelSettings::compile_arguments(uint32_t batch) const {
  std::vector<std::string> words = {"--batch", std::to_string(batch)};
  for (const auto& [name, shape] : shapes) {
    std::string text = name + "=";
    for (size_t i = 0; i < shape.size(); ++i) {
      text += (i != 0 ? "x" : "") + std::to_string(shape[i] != 0 ? shape[i] : batch);
    }
    words.insert(words.end(), {"--shape", text});
  }
  for (const auto& [name, size] : dimensions) {
    words.insert(words.end(), {"--dim", name + "=" + std::to_string(size)});
  }
  for (const auto& [name, value] : constants) {
    words.insert(words.end(), {"--constant", name + "=" + value});
  }
  if (auto_cast != "none") {
    words.insert(words.end(), {"--auto-cast", "matmult", "--auto-cast-type", auto_cast});
  }
  return words;
}

bool read_settings(std::string_view text, const std::string& path, ModelSettings& settings,
                   std::string& error) {
  boost::system::error_code code;
  const auto value = boost::json::parse(text, code);
  if (code || !value.is_object()) {
    error = path + ": expected a JSON object such as {\"batched\": true}" +
            (code ? "; " + code.message() : "");
    return false;
  }
  for (const auto& field : value.get_object()) {
    const std::string name(field.key());
    if (const char* expected = read_field(name, field.value(), settings)) {
      error = path;
      error += ": field \"" + name + "\": " + expected;
      return false;
    }
  }
  return true;
}

}  // namespace neuron::serve
