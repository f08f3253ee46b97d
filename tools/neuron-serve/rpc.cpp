// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/rpc.h"

#include <algorithm>
#include <utility>

#include "tools/common/version.h"
#include "tools/neuron-serve/grpc/parsed_size.h"
#include "tools/neuron-serve/server.h"

namespace neuron::serve {
namespace {

constexpr std::string_view kService = "/inference.GRPCInferenceService/";

// Messages up to this are read and written on the network thread.
constexpr size_t kShortMessage = 256 << 10;

// Paths of HTTP that are open without a token, for the calls that ask the same.
std::string_view path_for_gate(std::string_view method) {
  if (method == "ServerLive") return "/v2/health/live";
  if (method == "ServerReady") return "/v2/health/ready";
  return kService;
}

std::string_view name_of_method(std::string_view method) {
  return method.starts_with(kService) ? method.substr(kService.size()) : std::string_view();
}

}  // namespace

Rpc::Rpc(Server& server, std::shared_ptr<RpcCall> call)
    : server_(server), call_(std::move(call)), asked_(Clock::now()) {}

Rpc::~Rpc() { call_->leave(); }

void Rpc::start() {
  call_->attach(*this);
  deadline_ = asked_ + server_.options().client_timeout;
  const std::string_view method = name_of_method(call_->method());
  const auto refusal = server_.gate().check({.method = "POST",
                                             .path = path_for_gate(method),
                                             .host = call_->host(),
                                             .origin = call_->header("origin"),
                                             .fetch_site = call_->header("sec-fetch-site"),
                                             .authorization = call_->header("authorization")});
  if (refusal) return fail(refusal->status, std::string(refusal->message));
  if (method != "ServerLive" && method != "ServerReady" && method != "ModelReady" &&
      method != "ServerMetadata" && method != "ModelMetadata" && method != "ModelInfer") {
    return fail(501, "this server has no method " + call_->method());
  }
  // What needs nothing of its message does not wait for the room of one.
  if (method == "ServerLive" || method == "ServerReady" || method == "ServerMetadata") {
    phase_ = Phase::kWaiting;
    return handle();
  }
  server_.wait_for_room(shared_from_this());
}

void Rpc::refuse() {
  call_->attach(*this);
  deadline_ = asked_ + server_.options().client_timeout;
  fail(503, "this server has as many calls as it takes; try again");
}

bool Rpc::take_room() {
  if (phase_ != Phase::kRoom) return true;
  // How long the message is, is known when it is there.
  if (!hold(server_.options().max_body)) return false;
  phase_ = Phase::kReading;
  deadline_ = Clock::now() + server_.options().client_timeout;
  call_->read();
  return true;
}

void Rpc::message_came(bool good) {
  if (phase_ != Phase::kReading) return;
  phase_ = Phase::kWaiting;
  if (!good) return fail(413, rpc_no_message(server_.options().max_body));
  came_ = call_->message().size();
  hold_anyway(came_);
  handle();
}

void Rpc::peer_gone() {
  if (phase_ == Phase::kClosed) return;
  if (phase_ != Phase::kWriting) log_access(AccessLog::kClientGone, 0);
  close();
}

void Rpc::answered(bool) { close(); }

void Rpc::check_deadline(Clock::time_point now) {
  if (now < deadline_ || phase_ == Phase::kWaiting || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kRoom) {
    // Others may have lost theirs at this moment.
    if (take_room()) return;
    return fail(503, "the bodies of other requests take all the memory that there is for them");
  }
  if (phase_ == Phase::kReading) {
    return fail(408,
                "the message did not arrive in time; it is read for as long as --client-timeout "
                "says");
  }
  // It does not read its answer.
  call_->cancel();
  close();
}

void Rpc::close() {
  if (phase_ == Phase::kClosed) return;
  if (phase_ != Phase::kWriting) call_->cancel();
  phase_ = Phase::kClosed;
  call_->leave();
  // Nobody waits for the answer any more: its place is free at once, unless it is being computed.
  if (in_queue_) server_.withdraw(model_, *this);
  hold_anyway(0);
  server_.forget(*this);
}

bool Rpc::hold(size_t bytes) { return !server_.take_room(held_, bytes); }

void Rpc::hold_anyway(size_t bytes) { server_.held(std::exchange(held_, bytes), bytes); }

void Rpc::handle() {
  const std::string_view method = name_of_method(call_->method());
  const Catalog& catalog = server_.catalog();
  if (method == "ServerLive") return answer(rpc_truth(true));
  if (method == "ServerReady") {
    return answer(rpc_truth(!server_.draining() && catalog.state == State::kReady));
  }
  if (method == "ServerMetadata") {
    return answer(rpc_server_metadata("neuron-serve", tools::version()));
  }
  if (method == "ModelReady") return handle_model_ready();
  if (method == "ModelMetadata") return handle_metadata();
  handle_infer();
}

std::shared_ptr<Model> Rpc::find(const std::string& name, const std::string& version) {
  const Catalog& catalog = server_.catalog();
  auto model = catalog.find(name, version);
  if (model != nullptr) return model;
  if (const std::string why = catalog.why_missing(name, version); !why.empty()) {
    fail(503, "this model cannot be loaded: " + why);
  } else if (catalog.state != State::kReady) {
    fail(503, catalog.reason());
  } else {
    fail(404, "there is no such model or version");
  }
  return nullptr;
}

void Rpc::handle_model_ready() {
  RpcName asked;
  if (!asked.parse(call_->message())) return fail(400, "this is no ModelReadyRequest");
  if (find(asked.name, asked.version) == nullptr) return;
  answer(rpc_truth(server_.catalog().state == State::kReady));
}

void Rpc::handle_metadata() {
  RpcName asked;
  if (!asked.parse(call_->message())) return fail(400, "this is no ModelMetadataRequest");
  const auto model = find(asked.name, asked.version);
  if (model == nullptr) return;
  answer(rpc_model_metadata(model->spec, server_.catalog().versions(asked.name)));
}

void Rpc::handle_infer() {
  accepted = Clock::now();
  elsewhere(
      came_, [this] { parsed_size_ = parsed_size(call_->message()); }, [this] { parse(); });
}

void Rpc::parse() {
  // A message is there three times while it is read: as it came, parsed, and as tensors. Parsed it
  // may be far larger than it came.
  if (!take_room_for(2 * came_ + parsed_size_)) return;
  elsewhere(
      parsed_size_, [this] { good_ = form_.parse(call_->message()); }, [this] { parsed(good_); });
}

bool Rpc::take_room_for(size_t bytes) {
  const auto no = server_.take_room(held_, bytes);
  if (no) fail(no->status, no->sentence);
  return !no;
}

void Rpc::parsed(bool good) {
  if (!good) return fail(400, "this is no ModelInferRequest");
  std::string().swap(call_->message());
  const Catalog& catalog = server_.catalog();
  if (catalog.state != State::kReady) return fail(503, catalog.reason());
  model_ = find(form_.model(), form_.version());
  if (model_ == nullptr) return;
  // Without a look at the tensors: refusing has to be cheap when there is too much of them.
  if (model_->queue.waiting_rows() >= model_->queue.limit()) return refuse_inference();
  deadline = accepted + server_.options().request_timeout;
  if (const auto end = call_->deadline()) deadline = std::min(deadline, *end);
  elsewhere(
      came_, [this] { error_ = form_.read(model_->spec, *this); },
      [this] {
        if (!error_.empty()) return fail(400, error_);
        ask_model();
      });
}

void Rpc::ask_model() {
  // An answer is there three times until it is sent: as rows, as a message and in gRPC.
  if (!take_room_for(input.size() + 3 * rows * model_->spec.output_row_bytes)) return;
  if (!model_->queue.admit(rows)) return refuse_inference();
  in_queue_ = true;
  server_.submit(model_, shared_from_this());
}

void Rpc::refuse_inference() { fail(503, "as many requests wait for this model as may"); }

void Rpc::finished() {
  if (phase_ == Phase::kClosed) return;
  in_queue_ = false;
  switch (outcome) {
    case Outcome::kDone:
      break;
    case Outcome::kLate:
      return fail(504, detail);
    case Outcome::kUnavailable:
      return fail(503, detail);
    case Outcome::kFailed:
      return fail(500, detail);
  }
  model_->answered_after(Clock::now() - accepted);
  ++server_.counters().inferences;
  elsewhere(
      output.size(), [this] { out_ = form_.write(model_->spec, *this); },
      [this] {
        if (out_.empty()) {
          return fail(500, "the answer is larger than the 2 GiB that messages of gRPC may have");
        }
        answer(std::move(out_));
      });
}

void Rpc::elsewhere(size_t bytes, std::function<void()> work, std::function<void()> rest) {
  if (bytes <= kShortMessage) {
    work();
    return rest();
  }
  server_.in_background(std::move(work), [self = shared_from_this(), rest = std::move(rest)] {
    if (self->phase_ != Phase::kClosed) rest();
  });
}

void Rpc::answer(std::string message) {
  if (phase_ == Phase::kClosed || phase_ == Phase::kWriting) return;
  ++server_.counters().calls[rpc_code(200)];
  log_access(200, message.size());
  std::string().swap(input);
  std::string().swap(output);
  hold_anyway(2 * message.size());
  phase_ = Phase::kWriting;
  deadline_ = Clock::now() + server_.options().client_timeout;
  call_->answer(message);
}

void Rpc::fail(int status, const std::string& sentence) {
  if (phase_ == Phase::kClosed || phase_ == Phase::kWriting) return;
  ++server_.counters().calls[rpc_code(status)];
  log_access(status, sentence.size());
  // While it still comes it is gRPC's.
  if (phase_ == Phase::kWaiting) std::string().swap(call_->message());
  hold_anyway(0);
  phase_ = Phase::kWriting;
  deadline_ = Clock::now() + server_.options().client_timeout;
  call_->fail(rpc_code(status), sentence);
}

void Rpc::log_access(int status, size_t bytes) {
  if (!server_.access_log().enabled()) return;
  server_.access_log().add({.peer = call_->peer(),
                            .method = "gRPC",
                            .target = call_->method(),
                            .status = status,
                            .bytes_in = came_,
                            .bytes_out = bytes,
                            .time = Clock::now() - asked_});
}

}  // namespace neuron::serve
