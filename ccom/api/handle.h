// SPDX-License-Identifier: Apache-2.0
// What ccom_comm_t and ccom_request_t point to, and the guard around every call of the C interface.
//
// Concepts: a handle outlives its communicator. Handles of freed communicators are kept (a few
// bytes each), so that using one is an error and not a crash. After fork() a communicator belongs
// to the parent alone. Threads: as ccom.h says. Fails: sentences in ccom_last_error() of the
// thread.
#ifndef CCOM_API_HANDLE_H
#define CCOM_API_HANDLE_H

#include <ccom/ccom.h>

#include <memory>

#include "ccom/communicator/communicator.h"
#include "driver/base/guarded.h"

struct ccom_comm {
  static constexpr uint64_t kMagic = 0x6d6d6f636d6f6363;
  uint64_t magic = kMagic;
  std::unique_ptr<neuron::ccom::Communicator> body;  // null: freed
  uint32_t forks = 0;                                // when it was made
  int32_t process = 0;
};

struct ccom_request {
  static constexpr uint64_t kMagic = 0x7473657571657263;
  uint64_t magic = kMagic;
  uint32_t forks = 0;  // when it was started
  std::unique_ptr<neuron::ccom::Started> body;
};

namespace neuron::ccom {

ccom_status_t set_last_error(const Error& error);

// How often this process and its ancestors have forked since the library was loaded. The count
// tells a child from its parent.
uint32_t forks();

// Makes a handle for the communicator; fails with CCOM_RESOURCE.
ccom_comm_t* make_handle(std::unique_ptr<Communicator> body);
// Says why the handle cannot be used.
Error bad_handle(const ccom_comm_t* comm, const char* function);
bool good_handle(const ccom_comm_t* comm);

// Runs `work`, which returns ccom_status_t; no exception escapes.
template <class Work>
ccom_status_t guarded(Work&& work) noexcept {
  return base::guarded(std::forward<Work>(work), [](const char*, bool memory_ran_out) {
    return memory_ran_out
               ? set_last_error({CCOM_RESOURCE, "out of memory"})
               : set_last_error({CCOM_SYSTEM, "an unexpected exception reached the C interface"});
  });
}

}  // namespace neuron::ccom

#endif
