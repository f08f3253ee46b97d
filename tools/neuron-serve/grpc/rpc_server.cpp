// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/grpc/rpc_server.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "driver/base/thread_sanitizer.h"

namespace neuron::serve {
namespace {

// Calls that may come before the first of them is looked at.
constexpr int kExpected = 16;
// What answers that were given get to leave this process.
constexpr std::chrono::milliseconds kLast{500};

// "[::1]:41234" of "ipv6:%5B::1%5D:41234".
std::string plain(std::string peer) {
  if (peer.starts_with("ipv")) peer.erase(0, peer.find(':') + 1);
  for (const auto& [code, character] : {std::pair{"%5B", "["}, std::pair{"%5D", "]"}}) {
    if (const size_t at = peer.find(code); at != peer.npos) peer.replace(at, 3, character);
  }
  return peer;
}

class Call;

// One operation of a call, which the queue of gRPC gives back when it is done. It keeps the call.
struct Operation {
  using Step = void (Call::*)(bool);
  explicit Operation(Step done) : step(done) {}
  const Step step;
  std::shared_ptr<Call> call;
};

// What calls know of their server.
struct Exchange {
  grpc::AsyncGenericService service;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  RpcServer::Post post;
  RpcServer::Accepted accepted;
  bool ended = false;  // the network thread's
};

class Call final : public RpcCall, public std::enable_shared_from_this<Call> {
 public:
  explicit Call(Exchange& exchange) : exchange_(exchange), stream_(&context_) {}

  // The next call that comes.
  static void expect(Exchange& exchange) {
    const auto call = std::make_shared<Call>(exchange);
    call->context_.AsyncNotifyWhenDone(call->begin(call->ended_));
    exchange.service.RequestCall(&call->context_, &call->stream_, exchange.queue.get(),
                                 exchange.queue.get(), call->begin(call->came_));
  }

  void attach(Owner& owner) override { owner_ = &owner; }
  void leave() override { owner_ = nullptr; }
  void read() override {
    if (!exchange_.ended) stream_.Read(&bytes_, begin(read_));
  }
  void answer(const std::string& message) override {
    if (exchange_.ended) return;
    const grpc::Slice slice(message);
    const grpc::ByteBuffer bytes(&slice, 1);
    stream_.WriteAndFinish(bytes, {}, grpc::Status::OK, begin(answered_));
  }
  void fail(int code, const std::string& sentence) override {
    if (exchange_.ended) return;
    stream_.Finish({static_cast<grpc::StatusCode>(code), sentence}, begin(answered_));
  }
  void cancel() override { context_.TryCancel(); }

  const std::string& method() const override { return context_.method(); }
  const std::string& host() const override { return context_.host(); }
  std::string_view header(std::string_view name) const override {
    const auto& all = context_.client_metadata();
    const auto found = all.find(grpc::string_ref(name.data(), name.size()));
    if (found == all.end()) return {};
    return {found->second.data(), found->second.size()};
  }
  std::string& message() override { return message_; }
  std::optional<std::chrono::steady_clock::time_point> deadline() const override {
    const auto end = context_.deadline();
    if (end == std::chrono::system_clock::time_point::max()) return std::nullopt;
    return std::chrono::steady_clock::now() + (end - std::chrono::system_clock::now());
  }
  const std::string& peer() const override { return peer_; }

 private:
  void* begin(Operation& operation) {
    operation.call = shared_from_this();
    base::hand_over(&operation);
    return &operation;
  }

  // What follows runs on the thread of the queue.
  void on_came(bool good) {
    if (!good) {
      // The server ends, and of a call that never came no end is told.
      ended_.call.reset();
      return;
    }
    peer_ = plain(context_.peer());
    exchange_.post([self = shared_from_this()] {
      if (self->exchange_.ended) return;
      expect(self->exchange_);
      self->exchange_.accepted(self);
    });
  }

  void on_read(bool good) {
    std::vector<grpc::Slice> slices;
    if (good && bytes_.Dump(&slices).ok()) {
      message_.reserve(bytes_.Length());
      for (const grpc::Slice& slice : slices) {
        message_.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
    } else {
      good = false;
    }
    bytes_.Clear();
    tell([good](Owner& owner) { owner.message_came(good); });
  }

  void on_answered(bool good) {
    tell([good](Owner& owner) { owner.answered(good); });
  }

  void on_ended(bool) {
    if (context_.IsCancelled()) tell([](Owner& owner) { owner.peer_gone(); });
  }

  template <class Event>
  void tell(Event event) {
    exchange_.post([self = shared_from_this(), event] {
      if (self->owner_ != nullptr) event(*self->owner_);
    });
  }

  Exchange& exchange_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  grpc::ByteBuffer bytes_;
  std::string message_;
  std::string peer_;
  Owner* owner_ = nullptr;
  Operation came_{&Call::on_came}, read_{&Call::on_read}, answered_{&Call::on_answered},
      ended_{&Call::on_ended};
};

// Certificate and key of those who connect from now on. SslServerCredentials keep those that they
// were made with.
class RenewedCredentials final : public grpc::ServerCredentials {
 public:
  struct Pair {
    std::mutex mutex;  // the rest
    std::string certificates, key;
    bool fresh = false;
  };
  explicit RenewedCredentials(std::shared_ptr<Pair> pair) : pair_(std::move(pair)) {}

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  static grpc_ssl_certificate_config_reload_status fetch(
      void* of, grpc_ssl_server_certificate_config** config) {
    Pair& pair = *static_cast<Pair*>(of);
    std::lock_guard lock(pair.mutex);
    if (!std::exchange(pair.fresh, false)) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair text = {pair.key.c_str(), pair.certificates.c_str()};
    // There have to be roots for certificates of clients, which are not asked for any.
    *config = grpc_ssl_server_certificate_config_create(pair.certificates.c_str(), &text, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  int AddPortToServer(const std::string& address, grpc_server* server) override {
    grpc_server_credentials* const credentials = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE, &RenewedCredentials::fetch, pair_.get()));
    if (credentials == nullptr) return 0;
    const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }

  const std::shared_ptr<Pair> pair_;
};

// Of what gRPC logs, its own failures.
void report(gpr_log_func_args* entry) {
  if (std::strstr(entry->message, "assertion failed") != nullptr) {
    std::fprintf(stderr, "neuron-serve: gRPC, %s:%d: %s\n", entry->file, entry->line,
                 entry->message);
  }
}

// The socket that a descriptor stands for, 0 if it stands for none any more.
ino_t socket_of(int descriptor) {
  struct stat status = {};
  return ::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

}  // namespace

struct RpcServer::Parts {
  // gRPC has the descriptor, and tells nobody when it closes it. Another socket that gets the same
  // number is another file.
  struct Connection {
    int descriptor;
    ino_t socket;
  };

  Exchange exchange;
  std::vector<Connection> connections;
  size_t most_connections = 0;
  std::shared_ptr<RenewedCredentials::Pair> tls;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> door;
  std::thread thread;

  void serve() {
    void* tag = nullptr;
    bool good = false;
    while (exchange.queue->Next(&tag, &good)) {
      auto* const operation = static_cast<Operation*>(tag);
      base::take_over(operation);
      const std::shared_ptr<Call> call = std::move(operation->call);
      (call.get()->*operation->step)(good);
    }
  }
};

RpcServer::RpcServer(Post post, Accepted accepted) : parts_(std::make_unique<Parts>()) {
  parts_->exchange.post = std::move(post);
  parts_->exchange.accepted = std::move(accepted);
}

RpcServer::~RpcServer() { end(); }

void RpcServer::use_tls(const std::string& certificates, const std::string& key) {
  if (parts_->tls == nullptr) parts_->tls = std::make_shared<RenewedCredentials::Pair>();
  std::lock_guard lock(parts_->tls->mutex);
  parts_->tls->certificates = certificates;
  parts_->tls->key = key;
  parts_->tls->fresh = true;
}

bool RpcServer::start(const Limits& limits, std::string& error) {
  // What clients do wrong is none of the operator's log, and what the operator does is checked
  // elsewhere.
  gpr_set_log_function(&report);
  grpc::ServerBuilder builder;
  parts_->door = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      parts_->tls != nullptr ? std::make_shared<RenewedCredentials>(parts_->tls)
                             : grpc::InsecureServerCredentials());
  builder.RegisterAsyncGenericService(&parts_->exchange.service);
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min(limits.message, kMostRpcMessage)));
  builder.SetMaxSendMessageSize(-1);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetResourceQuota(grpc::ResourceQuota("neuron-serve").Resize(limits.memory));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(limits.header));
  // Streams of one connection, which no limit of connections bounds.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(limits.calls));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(limits.handshake.count()));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             static_cast<int>(limits.idle.count()));
  // A client whose host is gone is noticed while its call waits.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             static_cast<int>(limits.handshake.count()));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             static_cast<int>(limits.handshake.count()));
  parts_->exchange.queue = builder.AddCompletionQueue();
  parts_->server = builder.BuildAndStart();
  if (parts_->server == nullptr) {
    error = "gRPC cannot be served: its library does not start a server";
    return false;
  }
  parts_->most_connections = limits.connections;
  for (int i = 0; i < kExpected; ++i) Call::expect(parts_->exchange);
  parts_->thread = std::thread([parts = parts_.get()] { parts->serve(); });
  return true;
}

void RpcServer::take(base::FileDescriptor socket) {
  if (parts_->exchange.ended || parts_->connections.size() >= parts_->most_connections) return;
  parts_->connections.push_back({socket.get(), socket_of(socket.get())});
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = socket.release();
  parts_->door->HandleNewConnection(&connection);
}

void RpcServer::count() {
  std::erase_if(parts_->connections, [](const Parts::Connection& connection) {
    return socket_of(connection.descriptor) != connection.socket;
  });
}

size_t RpcServer::connections() const { return parts_->connections.size(); }

void RpcServer::end() {
  if (std::exchange(parts_->exchange.ended, true)) return;
  if (parts_->server != nullptr) {
    parts_->server->Shutdown(std::chrono::system_clock::now() + kLast);
  }
  if (parts_->exchange.queue == nullptr) return;
  parts_->exchange.queue->Shutdown();
  if (parts_->thread.joinable()) {
    parts_->thread.join();
  } else {
    parts_->serve();
  }
}

int rpc_code(int http_status) {
  switch (http_status) {
    case 200:
      return grpc::StatusCode::OK;
    case 400:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case 401:
      return grpc::StatusCode::UNAUTHENTICATED;
    case 403:
    case 421:
      return grpc::StatusCode::PERMISSION_DENIED;
    case 404:
      return grpc::StatusCode::NOT_FOUND;
    case 501:
      return grpc::StatusCode::UNIMPLEMENTED;
    case 408:
    case 504:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case 413:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case 503:
      return grpc::StatusCode::UNAVAILABLE;
    default:
      return grpc::StatusCode::INTERNAL;
  }
}

}  // namespace neuron::serve
