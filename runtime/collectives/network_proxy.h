// SPDX-License-Identifier: Apache-2.0
//
// Carries the messages of one rank's programs to and from ranks of other instances.
//
// Concepts: libccom moves the bytes (ccom_device_proxy_t); this gives it the device memory of this
// process and a thread. One thread serves all proxies of the process. While none of their programs
// is executed it sleeps, but for a look at the devices every tenth of a second: ranks of other
// instances cannot see that a device of this one is gone, so this one tells them.
// The notifications of a CC core go to one queue, so a model listens anew when it comes to its core
// after another one.
// Callers: CollectivePrograms. Thread-safe: begin(), end() and check() in any thread; listen() in
// the core's turn; the rest before the first begin(). Owns: libccom's proxy. Fails: check(), once
// the network has failed, with the rank and the route.
#ifndef RUNTIME_COLLECTIVES_NETWORK_PROXY_H
#define RUNTIME_COLLECTIVES_NETWORK_PROXY_H

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/collectives/world.h"
#include "runtime/device/core.h"

namespace neuron::runtime {

class NetworkProxy {
 public:
  // All ranks of the world call this together.
  static Result<std::shared_ptr<NetworkProxy>> open(Core& core, World& world);  // which outlives it
  ~NetworkProxy();
  NetworkProxy(const NetworkProxy&) = delete;
  NetworkProxy& operator=(const NetworkProxy&) = delete;

  // `program` outlives the proxy.
  Result<void> add(uint32_t stream, const ccom_device_program_t& program);
  // Before the CC cores are started: takes their notifications.
  Result<void> listen();
  // Around each execution.
  void begin();
  void end();
  Result<void> check() const;

  // For the thread. Returns whether something happened; `busy`: it has to look again soon.
  bool poll(bool& busy);
  // The thread ends for this reason: check() fails from now on.
  void lose(const char* what) noexcept;

 private:
  NetworkProxy(Core& core, World& world, const CollectivesLibrary& library)
      : core_(core), world_(world), library_(library) {}
  void look_at_device();
  void note_failure(const Error& error);
  static void* map(void* context, uint64_t address, uint64_t bytes);
  static bool due(void* context, uint32_t stream, uint32_t* number, uint64_t* time_ps);
  static bool signal(void* context, uint32_t stream, uint32_t semaphore, uint64_t time_ps);

  Core& core_;
  World& world_;
  const CollectivesLibrary& library_;
  struct Queue {
    uint32_t entries = 0;
    std::shared_ptr<CollectiveNotifications> notifications;  // null: has not listened yet
  };
  std::mutex mutex_;  // proxy_, due_
  ccom_device_proxy_t* proxy_ = nullptr;
  std::map<uint32_t, Queue> due_;  // by stream
  std::atomic<uint32_t> executions_{0};
  std::chrono::steady_clock::time_point look_{};  // the thread's: when to look at the device next
  mutable std::mutex failure_mutex_;              // failure_
  std::optional<Error> failure_;
};

}  // namespace neuron::runtime

#endif
