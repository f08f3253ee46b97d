// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/vfio_user_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "driver/emulator/transport/vfio_user/pci_function.h"
#include "driver/emulator/transport/vfio_user/vfio_user_session.h"

namespace neuron::transport {
namespace {

constexpr unsigned kMaxFunctions = 64;  // routing ids end there
constexpr std::chrono::seconds kLookAround{1};
constexpr size_t kShownWrites = 32;  // of a guest that is gone
constexpr int kPollMs = 1000;
constexpr int kExhaustedMs = 100;  // between attempts when no descriptor is left

// A listening socket at a path. A path that refuses connections is left over and is replaced.
int listen_at(const std::string& path, std::string& error) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    error = "the socket path " + path + " has " + std::to_string(path.size()) +
            " characters; a socket takes " + std::to_string(sizeof address.sun_path - 1) +
            ": choose a shorter folder";
    return -1;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // One that is stopped may have more waiting than it takes: it lives.
  const bool alive = probe >= 0 && (connect(probe, at, sizeof address) == 0 || errno == EAGAIN);
  const bool stale = !alive && errno == ECONNREFUSED;
  if (probe >= 0) close(probe);
  if (alive) {
    error = "another process serves " + path + "; end it or choose another folder";
    return -1;
  }
  if (stale) unlink(path.c_str());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const mode_t before = umask(0077);
  const bool listens =
      listener >= 0 && bind(listener, at, sizeof address) == 0 && listen(listener, 4) == 0;
  const int failure = errno;
  umask(before);
  if (listens) return listener;
  if (listener >= 0) close(listener);
  error = "no socket can be made at " + path + ": " + std::strerror(failure);
  return -1;
}

std::vector<std::string> lines_of(const std::vector<chip::HostWrite>& writes) {
  std::vector<std::string> lines;
  lines.reserve(writes.size());
  for (const chip::HostWrite& write : writes) lines.push_back(write.describe());
  return lines;
}

// A function, its socket, and the thread that serves it.
class Port {
 public:
  Port(unsigned index, const VfioUserOptions& options)
      : name_("nd" + std::to_string(index)),
        path_(options.folder + "/" + name_ + ".sock"),
        log_(options.log) {}
  ~Port() {
    stop();
    if (listener_ < 0) return;
    unlink(path_.c_str());
    close(listener_);
  }

  bool open(unsigned index, const VfioUserOptions& options, std::string& error) {
    listener_ = listen_at(path_, error);
    if (listener_ < 0) return false;
    function_ = PciFunction::create(index, options, error);
    if (function_ == nullptr) return false;
    thread_ = std::thread([this] { run(); });
    return true;
  }

  int listener() const { return listener_; }
  PciFunction& function() { return *function_; }
  const PciFunction& function() const { return *function_; }

  // A new client. One whose predecessor is gone but not yet cleared away waits for that.
  void offer(int socket) {
    std::unique_ptr<SocketStream> stream(new (std::nothrow) SocketStream(socket));
    if (stream == nullptr) {
      close(socket);
      return;
    }
    const std::lock_guard guard(mutex_);
    const auto present = [](const std::unique_ptr<SocketStream>& client) {
      return client != nullptr && !client->peer_gone();
    };
    const bool busy = dead_ || stopping_ || present(waiting_) || present(current_);
    if (busy) {
      say(dead_ ? "a client is turned away: the chip could not be built again"
                : "a second client is turned away: the function has one");
      return;
    }
    waiting_ = std::move(stream);
    changed_.notify_all();
  }

  bool connected() {
    const std::lock_guard guard(mutex_);
    return current_ != nullptr;
  }

  // Of the client that is there, or else of the one before.
  std::string statistics() {
    const std::lock_guard guard(mutex_);
    return current_ != nullptr || last_.empty() ? function_->describe() : last_;
  }

  void stop() {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
      waiting_.reset();
      if (current_ != nullptr) current_->close();
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void say(const std::string& sentence) const {
    if (log_) log_(name_ + ": " + sentence);
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_ && !dead_) {
      changed_.wait_for(lock, kLookAround, [this] { return stopping_ || waiting_ != nullptr; });
      if (stopping_ || waiting_ == nullptr) continue;
      current_ = std::move(waiting_);
      lock.unlock();
      const std::string failure = serve(*current_);
      lock.lock();
      current_.reset();
      dead_ = !failure.empty();
    }
  }

  // A sentence if the function cannot be used any more.
  std::string serve(SocketStream& stream) {
    std::string error;
    try {
      say("a client has connected");
      VfioUserSession session(*function_, stream,
                              [this](const std::string& sentence) { say(sentence); });
      session.serve();
      say(session.ended());
    } catch (const std::exception& failure) {  // memory: the connection ends, the daemon goes on
      say(std::string("the connection is given up: ") + failure.what());
    }
    stream.close();
    {
      const std::lock_guard guard(mutex_);
      last_ = function_->describe();
      say(last_);
    }
    if (function_->has_bus_master()) {
      say("the guest has gone without giving the device up; the last writes into its memory:");
      for (const std::string& line : lines_of(function_->host_writes().last(kShownWrites))) {
        say(line);
      }
    }
    try {
      if (!function_->power_cycle(error)) say(error);
    } catch (const std::exception& failure) {
      error = failure.what();
      say(error);
    }
    return error;
  }

  const std::string name_;
  const std::string path_;
  const std::function<void(const std::string&)> log_;
  int listener_ = -1;
  std::unique_ptr<PciFunction> function_;

  std::mutex mutex_;  // everything below but the thread
  std::condition_variable changed_;
  std::unique_ptr<SocketStream> waiting_;
  std::unique_ptr<SocketStream> current_;
  std::string last_;  // statistics of the client before
  bool stopping_ = false;
  bool dead_ = false;
  std::thread thread_;
};

class Server final : public VfioUserServer {
 public:
  ~Server() override {
    stop();
    if (wake_ >= 0) close(wake_);
  }

  bool start(const VfioUserOptions& options, std::string& error) {
    if (options.functions == 0 || options.functions > kMaxFunctions) {
      error = std::to_string(options.functions) + " functions cannot be served: 1 to " +
              std::to_string(kMaxFunctions) + " are possible";
      return false;
    }
    for (unsigned i = 0; i < options.functions; ++i) {
      ports_.push_back(std::make_unique<Port>(i, options));
      if (!ports_.back()->open(i, options, error)) return false;
    }
    wake_ = eventfd(0, EFD_CLOEXEC);
    if (wake_ < 0) {
      error = std::string("no eventfd can be made: ") + std::strerror(errno);
      return false;
    }
    acceptor_ = std::thread([this] { accept_clients(); });
    return true;
  }

  void stop() override {
    // Release: pairs with the acquire in accept_clients(), which may also see it a second late.
    stopping_.store(true, std::memory_order_release);
    const uint64_t one = 1;
    if (wake_ >= 0) (void)!write(wake_, &one, sizeof one);
    if (acceptor_.joinable()) acceptor_.join();
    for (auto& port : ports_) port->stop();
  }

  unsigned functions() const override { return static_cast<unsigned>(ports_.size()); }

  unsigned connections() const override {
    unsigned connected = 0;
    for (const auto& port : ports_) connected += port->connected() ? 1 : 0;
    return connected;
  }

  void with_chip(unsigned function, const std::function<void(chip::Chip&)>& use) override {
    if (function < ports_.size()) ports_[function]->function().with_chip(use);
  }

  std::vector<std::string> host_writes(unsigned function) const override {
    if (function >= ports_.size()) return {};
    return lines_of(ports_[function]->function().host_writes().last());
  }

  std::string statistics() const override {
    std::string lines;
    for (const auto& port : ports_) lines += port->statistics() + "\n";
    return lines;
  }

 private:
  void accept_clients() {
    std::vector<pollfd> watched;
    for (const auto& port : ports_) watched.push_back({port->listener(), POLLIN, 0});
    watched.push_back({wake_, POLLIN, 0});
    // Acquire: pairs with the release in stop().
    while (!stopping_.load(std::memory_order_acquire)) {
      if (poll(watched.data(), watched.size(), kPollMs) <= 0) continue;
      for (size_t i = 0; i < ports_.size(); ++i) {
        if ((watched[i].revents & POLLIN) == 0) continue;
        const int client = accept4(watched[i].fd, nullptr, nullptr, SOCK_CLOEXEC);
        if (client >= 0) {
          ports_[i]->offer(client);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
          rest();
        }
      }
    }
  }

  // The client waits until the process has a descriptor for it; the socket stays readable.
  void rest() const {
    pollfd woken = {wake_, POLLIN, 0};
    (void)poll(&woken, 1, kExhaustedMs);
  }

  std::vector<std::unique_ptr<Port>> ports_;
  int wake_ = -1;
  std::atomic<bool> stopping_ = false;
  std::thread acceptor_;
};

}  // namespace

std::unique_ptr<VfioUserServer> VfioUserServer::create(const VfioUserOptions& options,
                                                       std::string& error) {
  try {
    auto server = std::make_unique<Server>();
    if (!server->start(options, error)) return nullptr;
    return server;
  } catch (const std::exception& failure) {
    error = std::string("the PCI functions cannot be served: ") + failure.what();
    return nullptr;
  }
}

}  // namespace neuron::transport
