// SPDX-License-Identifier: Apache-2.0
#include "ccom/api/handle.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

namespace neuron::ccom {
namespace {

thread_local std::string last_error;

std::atomic<uint32_t>& fork_counter() {
  static std::atomic<uint32_t> counter{0};
  return counter;
}

// Freed handles stay readable; this list keeps them alive.
struct Freed {
  std::mutex mutex;
  std::vector<ccom_comm_t*> handles;
};

Freed& all_handles() {
  static auto* handles = new Freed;
  return *handles;
}

}  // namespace

ccom_status_t set_last_error(const Error& error) {
  try {
    last_error = error.sentence;
  } catch (...) {
    last_error.clear();
  }
  return error.status;
}

uint32_t forks() {
  [[maybe_unused]] static const int registered = pthread_atfork(
      nullptr, nullptr, [] { fork_counter().fetch_add(1, std::memory_order_relaxed); });
  // Relaxed: a child process begins with one thread.
  return fork_counter().load(std::memory_order_relaxed);
}

ccom_comm_t* make_handle(std::unique_ptr<Communicator> body) {
  auto handle = std::make_unique<ccom_comm>();
  handle->body = std::move(body);
  handle->forks = forks();
  handle->process = getpid();
  const std::lock_guard lock(all_handles().mutex);
  all_handles().handles.push_back(handle.get());
  return handle.release();
}

bool good_handle(const ccom_comm_t* comm) {
  return comm != nullptr && comm->magic == ccom_comm::kMagic && comm->body != nullptr &&
         comm->forks == forks();
}

Error bad_handle(const ccom_comm_t* comm, const char* function) {
  if (comm == nullptr || comm->magic != ccom_comm::kMagic) {
    return fail(CCOM_INVALID, "{}: the communicator is {}", function,
                comm == nullptr ? "null" : "no communicator");
  }
  if (comm->body == nullptr) {
    return fail(CCOM_INVALID, "{}: the communicator was freed", function);
  }
  return fail(CCOM_INVALID,
              "{}: the communicator belongs to process {}, which forked process {}; make a new one "
              "in the child",
              function, comm->process, getpid());
}

}  // namespace neuron::ccom

extern "C" const char* ccom_last_error(void) { return neuron::ccom::last_error.c_str(); }
