// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/message/infer_json.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "driver/base/json_text.h"
#include "tools/neuron-serve/message/elements.h"

namespace neuron::serve {
namespace {

class Reader : private JsonReader {
 public:
  Reader(std::string_view text, const ModelSpec& model, Job& job)
      : JsonReader(text), model_(model), job_(job), values_(model.inputs.size()) {}

  std::optional<JsonError> run() {
    if (read() && assemble()) return std::nullopt;
    return std::move(error_);
  }

 private:
  struct Value {
    std::string bytes;
    size_t rows = 0;  // 0: not given yet
  };

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
    return take('}', "at the end") && take_end();
  }

  bool read_input(std::string_view name) {
    field_ = "inputs." + std::string(name);
    size_t index = 0;
    if (!find_input(model_, name, index)) return false;
    const TensorSpec& spec = model_.inputs[index];
    Value& value = values_[index];
    if (value.rows != 0) return fail("this input was given before");
    value.bytes.reserve(spec.row_bytes);
    const size_t start = at_;
    std::vector<size_t> extents;
    // Room for every row of a batch, and no more.
    if (!take_numbers(spec, spec.row_bytes * model_.batch, extents, value.bytes)) return false;
    const size_t end = std::exchange(at_, start);  // a wrong shape is that of the whole list
    if (!set_rows(spec, extents, value)) return false;
    at_ = end;
    return true;
  }

  // The list's shape is [n * items], [row's shape] or [n, row's shape].
  bool set_rows(const TensorSpec& spec, const std::vector<size_t>& given, Value& value) {
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

  const ModelSpec& model_;
  Job& job_;
  std::vector<Value> values_;
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

class OwnForm final : public InferForm {
 public:
  std::optional<JsonError> read(std::string_view body, const ModelSpec& model, Job& job) override {
    return parse_inputs(body, model, job);
  }
  void write(const ModelSpec& model, const Job& job, std::string& body) override {
    append_outputs(model, job, body);
  }
};

}  // namespace

std::unique_ptr<InferForm> own_form() { return std::make_unique<OwnForm>(); }

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
