// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/vfio_user_guard.h"

#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <mutex>

namespace neuron::transport {
namespace {

constexpr size_t kWindows = 64;
constexpr uintptr_t kPage = 4096;

struct Window {
  std::atomic<uintptr_t> base = 0;  // 0: free
  std::atomic<uint64_t> size = 0;
};
Window windows[kWindows];
std::mutex windows_mutex;  // writers; the handler only reads
struct sigaction previous;

bool guarded(uintptr_t address) {
  for (const Window& window : windows) {
    // Acquire: pairs with the release in guard_memory(), after which size is set.
    const uintptr_t base = window.base.load(std::memory_order_acquire);
    if (base != 0 && address >= base &&
        address - base < window.size.load(std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (info->si_code > 0 && guarded(address)) {
    void* page = reinterpret_cast<void*>(address / kPage * kPage);
    const bool mapped = mmap(page, kPage, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    errno = saved;
    if (mapped) return;
  }
  errno = saved;
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    // The access happens again and ends the process, as it would have without this handler.
    sigaction(SIGBUS, &previous, nullptr);
  }
}

bool install() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGBUS, &action, &previous) == 0;
}

}  // namespace

bool guard_memory(std::byte* base, uint64_t size) {
  static const bool installed = install();
  const std::lock_guard guard(windows_mutex);
  if (!installed) return false;
  for (Window& window : windows) {
    if (window.base.load(std::memory_order_relaxed) != 0) continue;
    window.size.store(size, std::memory_order_relaxed);
    // Release: pairs with the acquire in guarded().
    window.base.store(reinterpret_cast<uintptr_t>(base), std::memory_order_release);
    return true;
  }
  return false;
}

void unguard_memory(std::byte* base) {
  const std::lock_guard guard(windows_mutex);
  for (Window& window : windows) {
    if (window.base.load(std::memory_order_relaxed) == reinterpret_cast<uintptr_t>(base)) {
      window.base.store(0, std::memory_order_relaxed);
    }
  }
}

}  // namespace neuron::transport
