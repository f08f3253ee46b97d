// SPDX-License-Identifier: Apache-2.0
//
// What a connection answers.
#include <algorithm>
#include <charconv>

#include "driver/base/json_text.h"
#include "tools/common/number_text.h"
#include "tools/neuron-serve/connection.h"
#include "tools/neuron-serve/message/infer_form.h"
#include "tools/neuron-serve/model_json.h"
#include "tools/neuron-serve/server.h"
#include "tools/neuron-serve/web.h"
#include "tools/neuron-serve/word.h"

namespace neuron::serve {
namespace {

constexpr std::string_view kBinary = "application/octet-stream";
constexpr std::string_view kModels = "/v1/models";
constexpr std::string_view kRetry = "Retry-After: 1\r\n";

// Texts up to this are read and written on the network thread: that takes less than a millisecond.
// Longer ones would keep everybody else waiting.
constexpr size_t kShort = 32 << 10;

// The type without its parameters.
bool is_type(std::string_view value, std::string_view type) {
  const std::string_view bare = value.substr(0, value.find(';'));
  return same_word(bare.substr(0, bare.find_last_not_of(' ') + 1), type);
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

// A name that a model chose, where a line of a header must not end: "a%0Ab" of "a\nb".
void append_in_header(std::string_view name, std::string& text) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7F && byte != '%') {
      text += c;
    } else {
      text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
}

// The tensors of a binary message: "x:float32:2,64; y:..."
std::string describe_tensors(const std::vector<TensorSpec>& tensors, bool batched, uint32_t rows) {
  std::string text;
  for (const TensorSpec& tensor : tensors) {
    if (!text.empty()) text += "; ";
    append_in_header(tensor.name, text);
    text += std::string(":") + dtype_name(tensor.dtype) + ":";
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      if (d != 0) text += ',';
      tools::append_number(text, d == 0 && batched ? rows : tensor.shape[d]);
    }
  }
  return text;
}

}  // namespace

bool Connection::may_enter() {
  const auto refusal = server_.gate().check({.method = stream_->method(),
                                             .path = path_of(stream_->target()),
                                             .host = stream_->header("Host"),
                                             .origin = stream_->header("Origin"),
                                             .fetch_site = stream_->header("Sec-Fetch-Site"),
                                             .authorization = stream_->header("Authorization"),
                                             .hosts = stream_->count("Host"),
                                             .version_1_0 = stream_->version_1_0(),
                                             .trusted = stream_->trusted()});
  if (refusal) fail(refusal->status, refusal->message, {}, -1, refusal->headers);
  return !refusal;
}

void Connection::handle() {
  const std::string_view path = path_of(stream_->target()), method = stream_->method();
  kserve_ = path == "/v2" || path.starts_with("/v2/");
  if (kserve_) return handle_kserve(path);
  if (path.size() > kModels.size() + 1 && path.starts_with(kModels) &&
      path[kModels.size()] == '/') {
    const std::string_view rest = path.substr(kModels.size() + 1);
    const size_t slash = rest.find('/');
    const std::string_view name = rest.substr(0, slash);
    if (slash != std::string_view::npos && rest.substr(slash) == "/infer") {
      if (method == "POST") return handle_infer(name);
      return fail(405, "an inference is asked for with POST", {}, -1, "Allow: POST\r\n");
    }
    if (slash != std::string_view::npos) return fail(404, "there is nothing at this path");
  } else if (path == "/v1/reload") {
    if (method == "POST") return handle_reload();
    return fail(405, "a reload is asked for with POST", {}, -1, "Allow: POST\r\n");
  }
  if (method != "GET" && !head_) {
    return fail(405, "this path is read with GET", {}, -1, "Allow: GET, HEAD\r\n");
  }
  handle_get(path);
}

void Connection::handle_get(std::string_view path) {
  const Catalog& catalog = server_.catalog();
  if (path == "/") {
    return answer(
        {.type = "text/html; charset=utf-8",
         .headers = "Content-Security-Policy: default-src 'none'; style-src "
                    "'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
                    "img-src data:; frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n",
         .body = std::string(web_page())});
  }
  if (path == "/healthz") return answer({.type = "text/plain", .body = "alive\n"});
  if (path == "/readyz") {
    if (server_.draining()) return unavailable("this server is about to end");
    if (catalog.state != State::kReady) {
      return unavailable(catalog.reason());
    }
    return answer({.type = "text/plain", .body = "ready\n"});
  }
  if (path == "/metrics") {
    return answer({.type = "text/plain; version=0.0.4", .body = server_.metrics_text()});
  }
  if (path == "/v1/status") return answer({.body = server_.status_json()});
  if (path == kModels) return answer({.body = models_json(catalog)});
  if (path.starts_with(kModels)) return handle_model(path.substr(kModels.size() + 1));
  fail(404, "there is nothing at this path; / has a page, /v1/models the models");
}

void Connection::handle_model(std::string_view name) {
  const Catalog& catalog = server_.catalog();
  if (const auto model = catalog.find(name)) {
    std::string text;
    append_model(*model, catalog.state == State::kReady, text);
    return answer({.body = text + "\n"});
  }
  const std::string why = catalog.why_missing(name);
  if (!why.empty()) return fail(503, "this model cannot be loaded: " + why);
  fail(404, "there is no such model; /v1/models lists them");
}

bool Connection::begin_infer(std::string_view name, std::string_view version) {
  accepted = Clock::now();
  const Catalog& catalog = server_.catalog();
  model_ = catalog.find(name, version);
  if (catalog.state != State::kReady) {
    unavailable(catalog.reason());
    return false;
  }
  if (model_ == nullptr) {
    const std::string why = catalog.why_missing(name, version);
    fail(why.empty() ? 404 : 503, why.empty() ? "there is no such model; /v1/models lists them"
                                              : "this model cannot be loaded: " + why);
    return false;
  }
  // Without a look at the body: refusing has to be cheap when there is too much of it.
  if (model_->queue.waiting_rows() >= model_->queue.limit()) {
    refuse_inference();
    return false;
  }
  return take_patience();
}

void Connection::handle_infer(std::string_view name) {
  if (!begin_infer(name, {})) return;
  const std::string_view type = stream_->header("Content-Type");
  const bool binary = is_type(type, kBinary);
  if (!binary && !type.empty() && !is_type(type, "application/json") &&
      !is_type(type, "application/x-www-form-urlencoded")) {
    return fail(415, "expected application/json or application/octet-stream");
  }
  const std::string_view accept = stream_->header("Accept");
  binary_answer_ = accept.empty() || accept == "*/*" ? binary : accept.find(kBinary) != accept.npos;
  form_ = own_form();
  if (!binary) return parse_json();
  if (parse_binary(model_->spec)) ask_model();
}

bool Connection::take_patience() {
  auto patience = server_.options().request_timeout;
  const std::string_view asked = stream_->header("X-Request-Timeout-Ms");
  if (!asked.empty()) {
    uint32_t milliseconds = 0;
    const auto [end, code] =
        std::from_chars(asked.data(), asked.data() + asked.size(), milliseconds);
    if (code != std::errc() || end != asked.data() + asked.size() || milliseconds == 0) {
      fail(400, "expected a number of milliseconds, at least 1", "X-Request-Timeout-Ms");
      return false;
    }
    patience =
        std::min(patience, std::chrono::microseconds(std::chrono::milliseconds(milliseconds)));
  }
  deadline = accepted + patience;
  return true;
}

void Connection::parse_json() {
  json_error_.reset();
  if (stream_->body().size() <= kShort) {
    json_error_ = form_->read(stream_->body(), model_->spec, *this);
    return parsed();
  }
  // Until it is back, nobody else looks at the body and at what it becomes.
  server_.in_background(
      [self = shared_from_this()] {
        self->json_error_ = self->form_->read(self->stream_->body(), self->model_->spec, *self);
      },
      [self = shared_from_this()] {
        if (self->phase_ != Phase::kClosed) self->parsed();
      });
}

void Connection::parsed() {
  if (json_error_) {
    const JsonError error = std::move(*json_error_);
    return fail(400, error.message, error.field, static_cast<long>(error.offset));
  }
  ask_model();
}

void Connection::ask_model() {
  // The text has become the input.
  std::string().swap(stream_->body());
  // An answer is there twice until it is written, and a number in JSON may be four times as long.
  const size_t copies = binary_answer_ ? 2 : 1 + 2 * 4;
  if (const auto no =
          server_.take_room(held_, input.size() + copies * rows * model_->spec.output_row_bytes)) {
    return fail(no->status, no->sentence, {}, -1, no->headers());
  }
  if (!model_->queue.admit(rows)) return refuse_inference();
  refusals_ = 0;
  in_queue_ = true;
  server_.submit(model_, shared_from_this());
}

bool Connection::parse_binary(const ModelSpec& model) {
  std::string& body = stream_->body();
  const size_t row = model.input_row_bytes;
  rows = row == 0 ? 1 : static_cast<uint32_t>(std::min<size_t>(body.size() / row, 1u << 30));
  if (row != 0 && (body.empty() || body.size() % row != 0 || rows > model.batch)) {
    fail(400, "the body has " + std::to_string(body.size()) + " bytes; a row of all inputs has " +
                  std::to_string(row) + ", and 1 to " + std::to_string(model.batch) +
                  " of them are taken at once");
    return false;
  }
  const std::string_view tensors = stream_->header("X-Tensors");
  if (!tensors.empty()) {
    const std::string expected = describe_tensors(model.inputs, model.batched, rows);
    if (tensors != expected) {
      fail(400, "expected '" + expected + "' for this model and a body of this size", "X-Tensors");
      return false;
    }
  }
  input.swap(body);
  return true;
}

// The job is back from its queue.
void Connection::finished() {
  if (phase_ == Phase::kClosed) return;
  in_queue_ = false;
  switch (outcome) {
    case Outcome::kDone:
      return answer_infer();
    case Outcome::kLate:
      return fail(504, detail);
    case Outcome::kUnavailable:
      return unavailable(detail);
    case Outcome::kFailed:
      return fail(500, detail);
  }
}

void Connection::answer_infer() {
  model_->answered_after(Clock::now() - accepted);
  ++server_.counters().inferences;
  if (binary_answer_) {
    std::string headers = "X-Tensors: ";
    headers += describe_tensors(model_->spec.outputs, model_->spec.batched, rows);
    headers += "\r\nX-Batch-Rows: ";
    tools::append_number(headers, batch_rows);
    headers += "\r\nX-Device-Picoseconds: ";
    tools::append_number(headers, device_ps);
    headers += "\r\n";
    Answer result{.type = kBinary, .headers = headers};
    result.body.swap(output);
    answer(result);
    output.swap(result.body);
    return;
  }
  body_.clear();
  if (output.size() * 8 <= kShort) {
    form_->write(model_->spec, *this, body_);
    return answer_json();
  }
  server_.in_background(
      [self = shared_from_this()] { self->form_->write(self->model_->spec, *self, self->body_); },
      [self = shared_from_this()] {
        if (self->phase_ != Phase::kClosed) self->answer_json();
      });
}

void Connection::answer_json() {
  Answer result{.type = form_->type(), .headers = form_->headers()};
  result.body.swap(body_);
  answer(result);
  body_.swap(result.body);
}

void Connection::handle_reload() {
  if (server_.catalog().state != State::kReady) {
    return unavailable("the folder is read again when models are served; they are not");
  }
  server_.reload([&server = server_, self = shared_from_this()](ReloadReport report) {
    // The answer is given on the network thread, as a finished job would be.
    self->detail = reload_json(report);
    self->outcome = report.good ? Outcome::kDone : Outcome::kFailed;
    server.post([&server, self] {
      const int failed = server.catalog().state == State::kReady ? 500 : 503;
      self->answer({.status = self->outcome == Outcome::kDone ? 200 : failed,
                    .headers = self->outcome != Outcome::kDone && failed == 503 ? kRetry : "",
                    .body = self->detail});
    });
  });
}

void Connection::answer(const Answer& answer) {
  if (phase_ == Phase::kClosed) return;
  if (server_.draining()) keep_alive_ = false;
  ++server_.counters().answers[answer.status];
  out_.clear();
  out_ += "HTTP/1.1 ";
  tools::append_number(out_, static_cast<uint64_t>(answer.status));
  out_ += ' ';
  out_ += reason_phrase(answer.status);
  out_ += "\r\nContent-Type: ";
  out_ += answer.type;
  out_ += "\r\nContent-Length: ";
  tools::append_number(out_, answer.body.size());
  out_ += "\r\n";
  out_ += answer.headers;
  if (!keep_alive_) {
    out_ += "Connection: close\r\n";
  } else if (stream_->version_1_0()) {
    out_ += "Connection: keep-alive\r\n";
  }
  out_ += "\r\n";
  if (!head_) out_ += answer.body;
  log_access(answer.status, out_.size());
  // What was asked with is not needed any more.
  if (input.capacity() > kShort) std::string().swap(input);
  hold_anyway(out_.size() + output.size() + answer.body.size());
  phase_ = Phase::kWriting;
  deadline_ = Clock::now() + server_.options().client_timeout;
  stream_->write(out_);
}

void Connection::log_access(int status, size_t bytes) {
  if (!server_.access_log().enabled()) return;
  const size_t length = has_request_ ? stream_->length().value_or(0) : 0;
  server_.access_log().add({.peer = stream_->peer(),
                            .method = has_request_ ? stream_->method() : "",
                            .target = has_request_ ? stream_->target() : "",
                            .status = status,
                            .bytes_in = length,
                            .bytes_out = bytes,
                            .time = Clock::now() - asked_});
}

void Connection::fail(int status, std::string_view message, std::string_view field, long offset,
                      std::string_view headers) {
  Answer result{.status = status, .headers = headers};
  if (kserve_) {
    // That protocol has room for a sentence only.
    std::string text(message);
    if (!field.empty()) text = std::string(field) + ": " + text;
    if (offset >= 0) text += ", at byte " + std::to_string(offset);
    result.body = "{\"error\":";
    base::append_json_string(result.body, text);
    result.body += "}\n";
    return answer(result);
  }
  result.body = "{\"error\":{\"status\":";
  tools::append_number(result.body, static_cast<uint64_t>(status));
  result.body += ",\"message\":";
  base::append_json_string(result.body, message);
  if (!field.empty()) {
    result.body += ",\"field\":";
    base::append_json_string(result.body, field);
  }
  if (offset >= 0) {
    result.body += ",\"offset\":";
    tools::append_number(result.body, static_cast<uint64_t>(offset));
  }
  result.body += "}}\n";
  answer(result);
}

void Connection::refuse_inference() {
  ++refusals_;
  refused_ = true;
  unavailable("as many requests wait for this model as may");
}

void Connection::unavailable(std::string_view message) { fail(503, message, {}, -1, kRetry); }

}  // namespace neuron::serve
