// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/infer_json.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "driver/base/json_text.h"
#include "tools/neuron-serve/elements.h"

namespace neuron::serve {
namespace {

constexpr size_t kDeepest = 8;

class Reader {
 public:
  Reader(std::string_view text, const ModelSpec& model, Job& job)
      : text_(text), model_(model), job_(job), values_(model.inputs.size()) {}

  std::optional<JsonError> run() {
    if (read() && assemble()) return std::nullopt;
    return std::move(error_);
  }

 private:
  struct Value {
    std::string bytes;
    size_t rows = 0;  // 0: not given yet
  };

  bool fail(std::string message) {
    error_ = {std::move(message), field_, at_};
    return false;
  }
  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  std::string found() const {
    if (at_ >= text_.size()) return "the end of the text";
    const char c = text_[at_];
    if (c > ' ' && c < 127) return std::string("'") + c + "'";
    return "byte " + std::to_string(static_cast<unsigned char>(c));
  }
  bool take(char wanted, const char* where) {
    skip_space();
    if (at_ < text_.size() && text_[at_] == wanted) {
      ++at_;
      return true;
    }
    return fail(std::string("expected '") + wanted + "' " + where + ", found " + found());
  }
  bool next_is(char wanted) {
    skip_space();
    return at_ < text_.size() && text_[at_] == wanted;
  }
  // Names of tensors have no escapes; a string that has some is no name.
  bool take_name(std::string_view& name) {
    if (!take('"', "before a name")) return false;
    const size_t end = text_.find_first_of("\"\\", at_);
    if (end == std::string_view::npos || text_[end] != '"') {
      return fail("expected a name that ends with '\"' and has no escapes");
    }
    name = text_.substr(at_, end - at_);
    at_ = end + 1;
    return take(':', "behind a name");
  }

  bool read() {
    if (!take('{', "at the start")) return false;
    std::string_view name;
    if (!take_name(name)) return false;
    if (name != "inputs") {
      field_ = name;
      return fail("unknown field; expected \"inputs\" and nothing else");
    }
    field_ = "inputs";
    if (!take('{', "before the inputs")) return false;
    if (!next_is('}')) {
      do {
        field_ = "inputs";
        if (!take_name(name) || !read_input(name)) return false;
      } while (next_is(',') && ++at_);
    }
    field_ = "inputs";
    if (!take('}', "behind the inputs")) return false;
    field_.clear();
    if (next_is(',')) return fail("unknown field; expected \"inputs\" and nothing else");
    if (!take('}', "at the end")) return false;
    skip_space();
    return at_ == text_.size() || fail("expected the end of the text, found " + found());
  }

  bool read_input(std::string_view name) {
    field_ = "inputs." + std::string(name);
    size_t index = 0;
    while (index < model_.inputs.size() && model_.inputs[index].name != name) ++index;
    if (index == model_.inputs.size()) {
      std::string names;
      for (const TensorSpec& input : model_.inputs) {
        names += (names.empty() ? "" : ", ") + input.name;
      }
      return fail("the model has no such input; it has " + names);
    }
    const TensorSpec& spec = model_.inputs[index];
    Value& value = values_[index];
    if (value.rows != 0) return fail("this input was given before");
    if (!has_numbers(spec.dtype)) {
      return fail(std::string("numbers of type ") + dtype_name(spec.dtype) +
                  " have no form in JSON; send application/octet-stream");
    }
    value.bytes.reserve(spec.row_bytes);
    const size_t start = at_;
    size_t extents[kDeepest];
    for (size_t& extent : extents) extent = SIZE_MAX;
    if (!read_list(spec, 0, extents, value.bytes)) return false;
    const size_t end = std::exchange(at_, start);  // a wrong shape is that of the whole list
    if (!set_rows(spec, extents, value)) return false;
    at_ = end;
    return true;
  }

  bool read_list(const TensorSpec& spec, size_t depth, size_t* extents, std::string& bytes) {
    if (depth == kDeepest) return fail("lists are nested more than 8 deep");
    if (!take('[', "before a list of numbers")) return false;
    // Room for every row of a batch, and no more.
    const size_t most = spec.row_bytes * model_.batch;
    size_t count = 0;
    if (!next_is(']')) {
      do {
        skip_space();
        if (next_is('[')) {
          if (count > 0 && extents[depth + 1 < kDeepest ? depth + 1 : depth] == SIZE_MAX) {
            return fail("expected a number, found a list");
          }
          if (!read_list(spec, depth + 1, extents, bytes)) return false;
        } else {
          const size_t length = append_element(text_.substr(at_), spec.dtype, bytes);
          if (length == 0) {
            return fail("expected a number that " + std::string(dtype_name(spec.dtype)) +
                        " can hold, found " + found());
          }
          if (depth + 1 < kDeepest && extents[depth + 1] != SIZE_MAX) {
            return fail("expected a list, found a number");
          }
          at_ += length;
        }
        ++count;
        if (bytes.size() > most) {
          return fail("more than " + std::to_string(most / spec.item_bytes) +
                      " numbers, which is all that the model takes at once");
        }
      } while (next_is(',') && ++at_);
    }
    if (extents[depth] != SIZE_MAX && extents[depth] != count) {
      return fail("a list of " + std::to_string(count) + " elements; those before it have " +
                  std::to_string(extents[depth]));
    }
    extents[depth] = count;
    return take(']', "behind a list");
  }

  // The list's shape is [n * items], [row's shape] or [n, row's shape].
  bool set_rows(const TensorSpec& spec, const size_t* extents, Value& value) {
    std::vector<size_t> given;
    for (size_t depth = 0; depth < kDeepest && extents[depth] != SIZE_MAX; ++depth) {
      given.push_back(extents[depth]);
    }
    const std::vector<size_t> row(spec.shape.begin() + (model_.batched ? 1 : 0), spec.shape.end());
    const size_t items = value.bytes.size() / spec.item_bytes;
    const bool flat = given.size() == 1 && items % spec.row_items == 0;
    const bool one = given == row;
    const bool several = given.size() == row.size() + 1 &&
                         std::equal(row.begin(), row.end(), given.begin() + 1) &&
                         (model_.batched || given[0] == 1);
    value.rows = items / spec.row_items;
    if ((flat || one || several) && value.rows > 0 && value.rows <= model_.batch) return true;
    std::string text = "the list's shape is [" + join(given) + "]; expected ";
    text +=
        model_.batched ? "[1.." + std::to_string(model_.batch) + (row.empty() ? "" : ", ") : "[";
    return fail(text + join(row) + "]");
  }

  static std::string join(const std::vector<size_t>& extents) {
    std::string text;
    for (const size_t extent : extents) {
      text += (text.empty() ? "" : ", ") + std::to_string(extent);
    }
    return text;
  }

  bool assemble() {
    job_.rows = 0;
    job_.input.clear();
    for (size_t i = 0; i < values_.size(); ++i) {
      field_ = "inputs." + model_.inputs[i].name;
      if (values_[i].rows == 0) return fail("this input is missing");
      if (i == 0) job_.rows = static_cast<uint32_t>(values_[i].rows);
      if (values_[i].rows != job_.rows) {
        return fail("this input has " + std::to_string(values_[i].rows) + " rows and " +
                    model_.inputs[0].name + " has " + std::to_string(job_.rows));
      }
      if (i == 0) {
        job_.input.swap(values_[i].bytes);
      } else {
        job_.input += values_[i].bytes;
      }
    }
    if (values_.empty()) job_.rows = 1;
    return true;
  }

  const std::string_view text_;
  const ModelSpec& model_;
  Job& job_;
  std::vector<Value> values_;
  std::string field_;
  size_t at_ = 0;
  std::optional<JsonError> error_;
};

void append_number(double value, std::string& text) {
  char buffer[48];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed, 3);
  text.append(buffer, end.ptr);
}

const char* append_list(const char* data, const TensorSpec& spec, size_t dimension, size_t end,
                        std::string& text) {
  if (dimension == end) {
    append_text(data, spec.dtype, text);
    return data + spec.item_bytes;
  }
  text += '[';
  for (uint32_t i = 0; i < spec.shape[dimension]; ++i) {
    if (i != 0) text += ',';
    data = append_list(data, spec, dimension + 1, end, text);
  }
  text += ']';
  return data;
}

}  // namespace

std::optional<JsonError> parse_inputs(std::string_view text, const ModelSpec& model, Job& job) {
  return Reader(text, model, job).run();
}

void append_outputs(const ModelSpec& model, const Job& job, std::string& text) {
  text += "{\"model\":";
  base::append_json_string(text, model.name);
  text += ",\"outputs\":{";
  const char* data = job.output.data();
  for (const TensorSpec& output : model.outputs) {
    if (&output != &model.outputs[0]) text += ',';
    base::append_json_string(text, output.name);
    text += ':';
    if (!has_numbers(output.dtype)) {
      text += "null";
      data += output.row_bytes * job.rows;
      continue;
    }
    if (model.batched) text += '[';
    for (uint32_t row = 0; row < job.rows; ++row) {
      if (row != 0) text += ',';
      data = append_list(data, output, model.batched ? 1 : 0, output.shape.size(), text);
    }
    if (model.batched) text += ']';
  }
  const auto waited = std::chrono::duration<double, std::micro>(job.started - job.accepted);
  text += "},\"timing\":{\"queue_us\":";
  append_number(waited.count(), text);
  text += ",\"host_us\":";
  append_number(static_cast<double>(job.host_ns) / 1e3, text);
  text += ",\"device_us\":";
  append_number(static_cast<double>(job.device_ps) / 1e6, text);
  text += ",\"batch_rows\":" + std::to_string(job.batch_rows) + "}}\n";
}

}  // namespace neuron::serve
