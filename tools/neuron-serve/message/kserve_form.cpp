// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <utility>

#include "driver/base/json_text.h"
#include "tools/common/number_text.h"
#include "tools/neuron-serve/message/elements.h"
#include "tools/neuron-serve/message/infer_form.h"

namespace neuron::serve {
namespace {

// An output that is asked for, in the order of the request.
struct Wanted {
  size_t output = 0;
  bool binary = false;
};

struct Request {
  std::string id;
  bool binary_output = false;
  bool names_outputs = false;
  std::vector<Wanted> outputs;
};

class RequestReader : private JsonReader {
 public:
  RequestReader(std::string_view text, std::string_view binary, const ModelSpec& model, Job& job,
                Request& request)
      : JsonReader(text),
        binary_(binary),
        model_(model),
        job_(job),
        request_(request),
        values_(model.inputs.size()) {}

  std::optional<JsonError> run() {
    if (read() && assemble()) return std::nullopt;
    return std::move(error_);
  }

 private:
  struct Value {
    std::string bytes;
    uint64_t rows = 0;
    bool given = false;
  };
  // What an entry of "inputs" says, before it is known what the model expects.
  struct Input {
    std::string name, type;
    std::vector<size_t> shape;
    bool has_shape = false, has_data = false, has_size = false;
    size_t start = 0, data = 0;
    uint64_t size = 0;  // of its binary data
  };

  bool read() {
    bool inputs = false;
    const bool good = take_object("the request", [&](std::string_view name) {
      field_ = name;
      if (name == "id") return take_string(request_.id);
      if (name == "parameters") return read_parameters();
      if (name == "outputs") {
        request_.names_outputs = true;
        return take_array("the outputs", [&] { return read_output(); });
      }
      if (name != "inputs") return fail("unknown field; expected id, parameters, inputs, outputs");
      inputs = true;
      return take_array("the inputs", [&] { return read_input(); });
    });
    field_.clear();
    if (!good || !take_end()) return false;
    if (!inputs) return fail("the request has no \"inputs\"");
    return binary_.empty() || fail(std::to_string(binary_.size()) +
                                   " bytes of binary data are left, which belong to no input");
  }

  bool read_parameters() {
    return take_object("the parameters", [&](std::string_view name) {
      field_ = "parameters." + std::string(name);
      if (name == "binary_data_output") return take_bool(request_.binary_output);
      return skip_value();
    });
  }

  bool read_output() {
    std::string name;
    std::optional<bool> binary;
    const size_t start = at_;
    const bool good = take_object("an output", [&](std::string_view field) {
      field_ = "outputs." + std::string(field);
      if (field == "name") return take_string(name);
      if (field != "parameters") return fail("unknown field; expected name and parameters");
      return take_object("the parameters", [&](std::string_view parameter) {
        field_ = "outputs.parameters." + std::string(parameter);
        if (parameter == "binary_data") return take_bool(binary.emplace());
        return fail("this server knows binary_data only");
      });
    });
    if (!good) return false;
    size_t index = 0;
    const auto& outputs = model_.outputs;
    while (index < outputs.size() && outputs[index].name != name) ++index;
    if (index == outputs.size()) {
      at_ = start;
      field_ = "outputs";
      std::string names;
      for (const TensorSpec& output : outputs) names += (names.empty() ? "" : ", ") + output.name;
      return fail("the model has no output \"" + name + "\"; it has " + names);
    }
    // Each of them would be a copy in the answer, and what the answer may take was counted once.
    if (std::any_of(request_.outputs.begin(), request_.outputs.end(),
                    [&](const Wanted& wanted) { return wanted.output == index; })) {
      at_ = start;
      field_ = "outputs";
      return fail("the output \"" + name + "\" was asked for before");
    }
    request_.outputs.push_back({index, binary.value_or(false)});
    asked_binary_.push_back(binary.has_value());
    return true;
  }

  bool read_input() {
    Input input;
    skip_space();
    input.start = at_;
    field_ = "inputs";
    const bool good = take_object("an input", [&](std::string_view field) {
      field_ = "inputs." + std::string(field);
      if (field == "name") return take_string(input.name);
      if (field == "datatype") return take_string(input.type);
      if (field == "shape") {
        input.has_shape = true;
        return take_array("the sizes of a shape", [&] {
          uint64_t size = 0;
          return take_whole(size) && (input.shape.push_back(size), true);
        });
      }
      if (field == "data") {
        skip_space();
        input.has_data = true;
        input.data = at_;
        return skip_value();
      }
      if (field != "parameters") {
        return fail("unknown field; expected name, datatype, shape, parameters, data");
      }
      return take_object("the parameters", [&](std::string_view parameter) {
        field_ = "inputs.parameters." + std::string(parameter);
        if (parameter == "binary_data_size") {
          input.has_size = true;
          return take_whole(input.size);
        }
        return fail("this server knows binary_data_size only");
      });
    });
    return good && take_input(input);
  }

  bool take_input(const Input& input) {
    const size_t end = std::exchange(at_, input.start);
    field_ = "inputs." + input.name;
    size_t index = 0;
    if (!find_input(model_, input.name, index)) return false;
    const TensorSpec& spec = model_.inputs[index];
    Value& value = values_[index];
    if (std::exchange(value.given, true)) return fail("this input was given before");
    const std::string type = kserve_type(spec.dtype);
    if (input.type != type && !(input.type == "BOOL" && spec.dtype == NRT_DTYPE_UINT8)) {
      return fail("found datatype \"" + input.type + "\", expected " + type);
    }
    if (!check_shape(spec, input, value)) return false;
    if (input.has_data == input.has_size) {
      return fail("expected either data or the parameter binary_data_size");
    }
    const size_t bytes = spec.row_bytes * value.rows;
    if (input.has_size) {
      if (input.size != bytes || input.size > binary_.size()) {
        return fail("binary_data_size is " + std::to_string(input.size) + ", of which " +
                    std::to_string(binary_.size()) + " bytes came; a tensor of this shape has " +
                    std::to_string(bytes));
      }
      value.bytes = binary_.substr(0, bytes);
      binary_.remove_prefix(bytes);
    } else {
      at_ = input.data;
      std::vector<size_t> extents;
      value.bytes.reserve(bytes);
      if (!take_numbers(spec, bytes, extents, value.bytes)) return false;
      at_ = input.data;
      if (value.bytes.size() != bytes || (extents.size() > 1 && extents != input.shape)) {
        return fail("the data has the shape [" + join(extents) + "]; shape says [" +
                    join(input.shape) + "]");
      }
    }
    at_ = end;
    return true;
  }

  bool check_shape(const TensorSpec& spec, const Input& input, Value& value) {
    const std::vector<size_t> expected(spec.shape.begin(), spec.shape.end());
    if (!model_.batched) {
      value.rows = 1;
      if (input.shape == expected && input.has_shape) return true;
      return fail("found shape [" + join(input.shape) + "], expected [" + join(expected) + "]");
    }
    value.rows = input.shape.empty() ? 0 : input.shape[0];
    if (input.shape.size() == expected.size() && value.rows >= 1 && value.rows <= model_.batch &&
        std::equal(expected.begin() + 1, expected.end(), input.shape.begin() + 1)) {
      return true;
    }
    std::string text =
        "found shape [" + join(input.shape) + "], expected [1.." + std::to_string(model_.batch);
    const std::string rest = join({expected.begin() + 1, expected.end()});
    return fail(text + (rest.empty() ? "" : ", ") + rest + "]");
  }

  bool assemble() {
    job_.input.clear();
    job_.rows = values_.empty() ? 1 : static_cast<uint32_t>(values_[0].rows);
    for (size_t i = 0; i < values_.size(); ++i) {
      field_ = "inputs." + model_.inputs[i].name;
      at_ = 0;
      if (!values_[i].given) return fail("this input is missing");
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
    if (!request_.names_outputs || request_.outputs.empty()) {
      for (size_t i = 0; i < model_.outputs.size(); ++i) {
        request_.outputs.push_back({i, request_.binary_output});
      }
    } else {
      for (size_t i = 0; i < asked_binary_.size(); ++i) {
        if (!asked_binary_[i]) request_.outputs[i].binary = request_.binary_output;
      }
    }
    for (const Wanted& wanted : request_.outputs) {
      const TensorSpec& output = model_.outputs[wanted.output];
      if (wanted.binary || has_numbers(output.dtype)) continue;
      field_ = "outputs." + output.name;
      return fail("numbers of type " + std::string(dtype_name(output.dtype)) +
                  " have no form in JSON; ask for them with {\"binary_data\": true}");
    }
    return true;
  }

  std::string_view binary_;  // what is not taken yet
  const ModelSpec& model_;
  Job& job_;
  Request& request_;
  std::vector<Value> values_;
  std::vector<bool> asked_binary_;
};

void append_time(const char* name, double microseconds, std::string& text) {
  text += std::string(",\"") + name + "\":" + std::to_string(microseconds);
}

class KserveForm final : public InferForm {
 public:
  explicit KserveForm(std::optional<uint64_t> json_bytes) : json_bytes_(json_bytes) {}

  std::optional<JsonError> read(std::string_view body, const ModelSpec& model, Job& job) override {
    const uint64_t json = json_bytes_.value_or(body.size());
    if (json > body.size()) {
      return JsonError{"the body has " + std::to_string(body.size()) + " bytes, fewer than " +
                           std::to_string(json) + ", which the field says its JSON has",
                       "Inference-Header-Content-Length"};
    }
    return RequestReader(body.substr(0, json), body.substr(json), model, job, request_).run();
  }

  void write(const ModelSpec& model, const Job& job, std::string& body) override {
    body += "{\"model_name\":";
    base::append_json_string(body, name_of(model.name));
    body += ",\"model_version\":";
    base::append_json_string(body, version_of(model.name));
    if (!request_.id.empty()) {
      body += ",\"id\":";
      base::append_json_string(body, request_.id);
    }
    body += ",\"parameters\":{\"batch_rows\":" + std::to_string(job.batch_rows);
    const std::chrono::duration<double, std::micro> waited = job.started - job.accepted;
    append_time("queue_us", waited.count(), body);
    append_time("host_us", static_cast<double>(job.host_ns) / 1e3, body);
    append_time("device_us", static_cast<double>(job.device_ps) / 1e6, body);
    body += "},\"outputs\":[";
    std::string binary;
    for (const Wanted& wanted : request_.outputs) {
      if (&wanted != &request_.outputs[0]) body += ',';
      append_output(model, job, wanted, body, binary);
    }
    body += "]}";
    if (!has_binary_) {
      body += '\n';
      return;
    }
    headers_ = "Inference-Header-Content-Length: " + std::to_string(body.size()) + "\r\n";
    body += binary;
  }

  std::string_view type() const override {
    return has_binary_ ? "application/octet-stream" : "application/json";
  }
  std::string_view headers() const override { return headers_; }

 private:
  void append_output(const ModelSpec& model, const Job& job, const Wanted& wanted,
                     std::string& body, std::string& binary) {
    const TensorSpec& output = model.outputs[wanted.output];
    size_t before = 0;
    for (size_t i = 0; i < wanted.output; ++i) before += model.outputs[i].row_bytes;
    const char* data = job.output.data() + before * job.rows;
    const size_t bytes = output.row_bytes * job.rows;
    body += "{\"name\":";
    base::append_json_string(body, output.name);
    body += ",\"datatype\":\"" + kserve_type(output.dtype) + "\",\"shape\":[";
    for (size_t d = 0; d < output.shape.size(); ++d) {
      if (d != 0) body += ',';
      tools::append_number(body, d == 0 && model.batched ? job.rows : output.shape[d]);
    }
    if (wanted.binary) {
      body += "],\"parameters\":{\"binary_data_size\":" + std::to_string(bytes) + "}}";
      binary.append(data, bytes);
      has_binary_ = true;
      return;
    }
    body += "],\"data\":[";
    for (size_t at = 0; at < bytes; at += output.item_bytes) {
      if (at != 0) body += ',';
      append_text(data + at, output.dtype, body);
    }
    body += "]}";
  }

  const std::optional<uint64_t> json_bytes_;
  Request request_;
  std::string headers_;
  bool has_binary_ = false;
};

}  // namespace

std::string kserve_type(nrt_dtype_t dtype) {
  switch (dtype) {
    case NRT_DTYPE_FLOAT32:
    case NRT_DTYPE_FP32R:
      return "FP32";
    case NRT_DTYPE_FLOAT16:
      return "FP16";
    case NRT_DTYPE_BFLOAT16:
      return "BF16";
    default:
      break;
  }
  std::string name = dtype_name(dtype);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::unique_ptr<InferForm> kserve_form(std::optional<uint64_t> json_bytes) {
  return std::make_unique<KserveForm>(json_bytes);
}

}  // namespace neuron::serve
