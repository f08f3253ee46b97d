// SPDX-License-Identifier: Apache-2.0
//
// What a connection answers at /v2: the inference protocol of KServe, version 2, which clients of
// other servers speak.
#include <charconv>

#include "driver/base/json_text.h"
#include "tools/common/version.h"
#include "tools/neuron-serve/connection.h"
#include "tools/neuron-serve/message/elements.h"
#include "tools/neuron-serve/server.h"

namespace neuron::serve {
namespace {

constexpr std::string_view kServedModels = "/v2/models/";
constexpr std::string_view kLength = "Inference-Header-Content-Length";

// NAME[/versions/VERSION][/WORD]
struct Target {
  std::string_view name, version, word;
  bool good = true;
};

std::string_view first_part(std::string_view& rest) {
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view part = rest.substr(0, slash);
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  return part;
}

Target read_target(std::string_view rest) {
  Target target;
  target.name = first_part(rest);
  target.word = first_part(rest);
  if (target.word == "versions") {
    target.version = first_part(rest);
    target.word = first_part(rest);
    target.good = !target.version.empty();
  }
  target.good = target.good && rest.empty() && !target.name.empty();
  return target;
}

void append_tensors(const std::vector<TensorSpec>& tensors, bool batched, std::string& text) {
  text += '[';
  for (const TensorSpec& tensor : tensors) {
    if (&tensor != &tensors[0]) text += ',';
    text += "{\"name\":";
    base::append_json_string(text, tensor.name);
    text += ",\"datatype\":\"" + kserve_type(tensor.dtype) + "\",\"shape\":[";
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      if (d != 0) text += ',';
      text += d == 0 && batched ? "-1" : std::to_string(tensor.shape[d]);
    }
    text += "]}";
  }
  text += ']';
}

std::string metadata(const Catalog& catalog, const Model& model) {
  const std::string name = name_of(model.spec.name);
  std::string text = "{\"name\":";
  base::append_json_string(text, name);
  text += ",\"versions\":[";
  bool first = true;
  for (const std::string& version : catalog.versions(name)) {
    if (!first) text += ',';
    first = false;
    base::append_json_string(text, version);
  }
  text += "],\"platform\":\"neuron_neff\",\"inputs\":";
  append_tensors(model.spec.inputs, model.spec.batched, text);
  text += ",\"outputs\":";
  append_tensors(model.spec.outputs, model.spec.batched, text);
  return text + "}\n";
}

// Elements up to which an example is worth it, and up to which it is written at once.
constexpr size_t kMostZeros = 1u << 22, kShortRequest = 16u << 10;
// Characters of an example besides its numbers.
constexpr size_t kAround = 4096;

// Of all inputs; more than kMostZeros if there can be no example.
size_t zeros_of(const ModelSpec& model) {
  size_t zeros = 0;
  for (const TensorSpec& input : model.inputs) {
    if (input.row_items > kMostZeros || !has_numbers(input.dtype)) return kMostZeros + 1;
    zeros += input.row_items;
  }
  return zeros;
}

// A request of one row whose numbers are zero.
void append_example(const ModelSpec& model, std::string& text) {
  text += "{\"inputs\":[";
  for (const TensorSpec& input : model.inputs) {
    if (&input != &model.inputs[0]) text += ',';
    text += "{\"name\":";
    base::append_json_string(text, input.name);
    text += ",\"datatype\":\"" + kserve_type(input.dtype) + "\",\"shape\":[";
    for (size_t d = 0; d < input.shape.size(); ++d) {
      if (d != 0) text += ',';
      text += d == 0 && model.batched ? "1" : std::to_string(input.shape[d]);
    }
    text += "],\"data\":[";
    for (size_t i = 0; i < input.row_items; ++i) text += i != 0 ? ",0" : "0";
    text += "]}";
  }
  text += "]}\n";
}

}  // namespace

void Connection::handle_kserve(std::string_view path) {
  const Catalog& catalog = server_.catalog();
  const bool infer = path.ends_with("/infer");
  if (infer && stream_->method() != "POST") {
    return fail(405, "an inference is asked for with POST", {}, -1, "Allow: POST\r\n");
  }
  if (!infer && stream_->method() != "GET" && !head_) {
    return fail(405, "this path is read with GET", {}, -1, "Allow: GET, HEAD\r\n");
  }
  if (path == "/v2" || path == "/v2/") {
    return answer({.body = std::string("{\"name\":\"neuron-serve\",\"version\":\"") +
                           tools::version() + "\",\"extensions\":[\"binary_tensor_data\"]}\n"});
  }
  if (path == "/v2/health/live") return answer({.body = "{\"live\":true}\n"});
  if (path == "/v2/health/ready") {
    if (server_.draining()) return unavailable("this server is about to end");
    if (catalog.state != State::kReady) return unavailable(catalog.reason());
    return answer({.body = "{\"ready\":true}\n"});
  }
  if (path.starts_with(kServedModels)) {
    return handle_kserve_model(path.substr(kServedModels.size()));
  }
  fail(404, "there is nothing at this path; /v2/models/NAME describes a model");
}

void Connection::handle_kserve_model(std::string_view path) {
  const Target target = read_target(path);
  if (target.good && target.word == "infer") {
    std::optional<uint64_t> json;
    if (const std::string_view length = stream_->header(kLength); !length.empty()) {
      const auto [end, code] =
          std::from_chars(length.data(), length.data() + length.size(), json.emplace());
      if (code != std::errc() || end != length.data() + length.size()) {
        return fail(400, "expected a number of bytes", kLength);
      }
    }
    if (!begin_infer(target.name, target.version)) return;
    binary_answer_ = false;
    form_ = kserve_form(json);
    return parse_json();
  }
  if (!target.good ||
      (!target.word.empty() && target.word != "ready" && target.word != "example")) {
    return fail(404,
                "there is nothing at this path; expected /v2/models/NAME, then perhaps "
                "/versions/VERSION, then nothing, /ready, /example or /infer");
  }
  const Catalog& catalog = server_.catalog();
  const auto model = catalog.find(target.name, target.version);
  if (model == nullptr) {
    const std::string why = catalog.why_missing(target.name, target.version);
    if (!why.empty()) return unavailable("this model cannot be loaded: " + why);
    if (catalog.state != State::kReady) return unavailable(catalog.reason());
    return fail(404, "there is no such model or version; /v1/models lists them");
  }
  if (target.word.empty()) return answer({.body = metadata(catalog, *model)});
  if (target.word == "example") {
    const size_t zeros = zeros_of(model->spec);
    if (zeros > kMostZeros) {
      return fail(404, "an example for inputs of this size or type has no use");
    }
    // It is there twice until it is written, and a zero has two characters.
    if (const auto no = server_.take_room(held_, 2 * (2 * zeros + kAround))) {
      return fail(no->status, no->sentence, {}, -1, no->headers());
    }
    body_.clear();
    form_ = kserve_form(std::nullopt);
    if (zeros <= kShortRequest) {
      append_example(model->spec, body_);
      return answer_json();
    }
    return server_.in_background(
        [self = shared_from_this(), model] { append_example(model->spec, self->body_); },
        [self = shared_from_this()] {
          if (self->phase_ != Phase::kClosed) self->answer_json();
        });
  }
  if (catalog.state != State::kReady) return unavailable(catalog.reason());
  std::string text = "{\"name\":";
  base::append_json_string(text, target.name);
  answer({.body = text + ",\"ready\":true}\n"});
}

}  // namespace neuron::serve
