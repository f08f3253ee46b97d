// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/network_proxy.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <thread>
#include <vector>

#include "driver/base/backoff.h"
#include "driver/base/service_thread.h"
#include "hw/address_map.h"
#include "hw/control.h"
#include "runtime/device/device_memory.h"

namespace neuron::runtime {
namespace {

// While a program is executed: quick looks first, then naps, because the execution may compute for
// long before its collective. A look asks the kernel about all sockets, on the processor that the
// awaited device or rank may need: it yields after one.
constexpr base::Backoff::Steps kLooks{.pauses = 1, .yields = 2000};

constexpr std::chrono::milliseconds kLookAtDevices{100};

// The thread that serves the proxies of this process. It lives as long as one of them.
class ProxyThread {
 public:
  // Never destroyed: a thread of the program may still be in a call when static objects end.
  static ProxyThread& get() {
    static ProxyThread* thread = new ProxyThread;
    return *thread;
  }

  void add(NetworkProxy& proxy) {
    // Before libfabric's own destructors, which were registered when it was loaded: a program may
    // end without closing the runtime.
    [[maybe_unused]] static const int registered = std::atexit([] { get().stop(); });
    const std::lock_guard lock(mutex_);
    proxies_.push_back(&proxy);
    if (gave_up_) thread_.join();  // it needs no lock any more
    if (thread_.joinable()) return;
    gave_up_ = false;
    thread_ = base::service_thread(
        "nrt-proxy", [this, number = ++current_] { serve(number); },
        [this](const char* what) { give_up(what); });
  }

  void remove(NetworkProxy& proxy) {
    std::thread ended;
    {
      std::unique_lock lock(mutex_);
      std::erase(proxies_, &proxy);
      awake_ = true;  // the thread's round may have passed over another one
      served_.wait(lock, [&] { return serving_ != &proxy; });
      if (proxies_.empty()) {
        ++current_;
        ended.swap(thread_);
      }
    }
    wake_.notify_all();  // the next thread may sleep already
    if (ended.joinable()) ended.join();
  }

  void stop() {
    std::thread ended;
    {
      const std::lock_guard lock(mutex_);
      ++current_;
      ended.swap(thread_);
    }
    wake_.notify_all();  // the next thread may sleep already
    if (ended.joinable()) ended.join();
  }

  // An execution has begun.
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      awake_ = true;
    }
    wake_.notify_all();
  }

 private:
  void serve(uint64_t number) {
    base::Backoff backoff(kLooks);
    std::unique_lock lock(mutex_);
    // The thread before may still be with a proxy, whose owner waits for that; it serves no other.
    served_.wait(lock, [&] { return serving_ == nullptr; });
    // bounded: until the last proxy is removed
    while (current_ == number) {
      awake_ = false;
      bool moved = false, busy = false;
      for (size_t i = 0; i < proxies_.size() && current_ == number; ++i) {
        NetworkProxy* const proxy = serving_ = proxies_[i];
        lock.unlock();
        bool proxy_busy = false;
        moved = proxy->poll(proxy_busy) || moved;
        busy = busy || proxy_busy;
        lock.lock();
        serving_ = nullptr;
        served_.notify_all();
      }
      if (moved) {
        backoff.reset();
      } else if (busy) {
        lock.unlock();
        backoff.wait();
        lock.lock();
      } else {
        wake_.wait_for(lock, kLookAtDevices, [&] { return current_ != number || awake_; });
        backoff.reset();
      }
    }
  }

  // Without the thread no message is carried: every rank of this process has failed.
  void give_up(const char* what) {
    const std::lock_guard lock(mutex_);
    serving_ = nullptr;
    served_.notify_all();
    for (NetworkProxy* proxy : proxies_) proxy->lose(what);
    gave_up_ = thread_.joinable();
  }

  std::mutex mutex_;  // all below
  std::condition_variable wake_, served_;
  std::vector<NetworkProxy*> proxies_;
  NetworkProxy* serving_ = nullptr;
  bool awake_ = false;
  bool gave_up_ = false;
  // Of the thread that serves. A thread with another number ends, also while the next one begins.
  uint64_t current_ = 0;
  std::thread thread_;
};

}  // namespace

Result<std::shared_ptr<NetworkProxy>> NetworkProxy::open(Core& core, World& world) {
  NEURON_TRY(library, collectives_library());
  std::shared_ptr<NetworkProxy> proxy(new NetworkProxy(core, world, *library));
  const ccom_device_host_t host = {
      .size_of = sizeof(host), .context = proxy.get(), .map = &map, .due = &due, .signal = &signal};
  NEURON_TRY(opened, world.open_proxy(host));
  proxy->proxy_ = opened;
  ProxyThread::get().add(*proxy);
  return proxy;
}

NetworkProxy::~NetworkProxy() {
  if (proxy_ == nullptr) return;
  ProxyThread::get().remove(*this);
  library_.proxy_close(proxy_);
}

void* NetworkProxy::map(void* context, uint64_t address, uint64_t bytes) {
  const Core& core = static_cast<const NetworkProxy*>(context)->core_;
  DeviceMemory* memory = core.device().memory_at(address, bytes);
  if (memory == nullptr) return nullptr;
  const auto mapping = memory->map();
  return mapping ? *mapping + (address - memory->address()) : nullptr;
}

bool NetworkProxy::due(void* context, uint32_t stream, uint32_t* number, uint64_t* time_ps) {
  auto& queues = static_cast<NetworkProxy*>(context)->due_;
  const auto found = queues.find(stream);
  neuron_notification entry;
  if (found == queues.end() || found->second.notifications == nullptr) return false;
  while (found->second.notifications->next(entry)) {
    if (((entry.word >> NEURON_NW_KIND_SHIFT) & 0xF) != NEURON_NK_NOTIFY) continue;
    *number = entry.info[0];
    *time_ps = entry.time;
    return true;
  }
  return false;
}

bool NetworkProxy::signal(void* context, uint32_t stream, uint32_t semaphore, uint64_t time_ps) {
  const Core& core = static_cast<const NetworkProxy*>(context)->core_;
  const uint64_t base = core.place().cc_bar0(stream);
  // The times before the increment: registers are written in order. Nobody waits until it has
  // happened; poll() looks whether it has.
  const auto written = core.device().post_registers(
      {{base + NEURON_CC_ENGINE + NEURON_ENG_ARRIVAL_LO, static_cast<uint32_t>(time_ps)},
       {base + NEURON_CC_ENGINE + NEURON_ENG_ARRIVAL_HI, static_cast<uint32_t>(time_ps >> 32)},
       {base + NEURON_CC_SEMAPHORES + NEURON_SEM_BLOCK_INC + semaphore * 4ull, 1}});
  return written.has_value();
}

Result<void> NetworkProxy::add(uint32_t stream, const ccom_device_program_t& program) {
  const std::lock_guard lock(mutex_);
  if (program.message_count != 0) due_[stream].entries = program.message_count;
  const ccom_status_t status = library_.proxy_add(proxy_, stream, &program);
  if (status == CCOM_SUCCESS) return {};
  return fail(status_of_collectives(status), "{}", library_.last_error());
}

Result<void> NetworkProxy::listen() {
  const std::lock_guard lock(mutex_);
  for (auto& [stream, queue] : due_) {
    if (queue.notifications != nullptr && !queue.notifications->closed()) continue;
    NEURON_TRY(notifications, core_.notifications_of(stream, queue.entries));
    queue.notifications = notifications;
  }
  return {};
}

void NetworkProxy::begin() {
  executions_.fetch_add(1, std::memory_order_relaxed);
  ProxyThread::get().wake();
}

void NetworkProxy::end() { executions_.fetch_sub(1, std::memory_order_relaxed); }

Result<void> NetworkProxy::check() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_ ? Result<void>(*failure_) : Result<void>();
}

void NetworkProxy::lose(const char* what) noexcept {
  base::guarded(
      [&] {
        note_failure(fail(NRT_NETWORK_PROXY_FAILURE,
                          "the thread that carries messages of rank {} to other instances has "
                          "ended: {}",
                          world_.rank(), what));
      },
      [](const char*, bool) {});
}

void NetworkProxy::note_failure(const Error& error) {
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = error;
}

void NetworkProxy::look_at_device() {
  const auto now = std::chrono::steady_clock::now();
  if (now < look_) return;
  look_ = now + kLookAtDevices;
  const auto status = core_.device().read_register(core_.place().window_bar0() +
                                                   NEURON_CORE_CONTROL + NEURON_CORE_STATUS);
  if (status || !check()) return;
  const Error error =
      status.error().with("device {} of rank {} is gone", core_.device().index(), world_.rank());
  note_failure(error);
  world_.note_failure(error.sentence);
}

bool NetworkProxy::poll(bool& busy) {
  look_at_device();
  const std::lock_guard lock(mutex_);
  bool moved = false;
  const ccom_status_t status = library_.proxy_poll(proxy_, &moved, &busy);
  if (status != CCOM_SUCCESS) {
    note_failure(fail(status_of_collectives(status), "{}", library_.last_error()));
    busy = false;
    return false;
  }
  // What was posted and refused: its CC core waits for ever.
  if (const auto posted = core_.device().check_posted(); !posted && check()) {
    const Error error = posted.error().with(
        "the collective core of rank {} cannot be told of a "
        "message",
        world_.rank());
    note_failure(error);
    world_.note_failure(error.sentence);
  }
  busy = busy || executions_.load(std::memory_order_relaxed) != 0;
  return moved;
}

}  // namespace neuron::runtime
