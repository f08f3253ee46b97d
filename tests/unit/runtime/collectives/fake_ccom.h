// SPDX-License-Identifier: Apache-2.0
//
// A libccom.so.1 that does what a test says, and keeps what it is told: the module fake-ccom.so,
// which the runtime opens as it opens the real one.
//
// Callers: tests of this folder. A FakeCcom names the module in NEURON_CCOM_LIBRARY; its state is
// new for each. The runtime opens the library once in a process and keeps it.
#ifndef TESTS_UNIT_RUNTIME_COLLECTIVES_FAKE_CCOM_H
#define TESTS_UNIT_RUNTIME_COLLECTIVES_FAKE_CCOM_H

#include <ccom/ccom.h>
#include <ccom/ccom_device.h>
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/collectives/library.h"
#include "tests/support/files.h"
#include "tests/support/setting.h"

namespace neuron::test {

struct FakeCcomState {
  struct Joined {
    uint32_t rank = 0, size = 0;
    ccom_options_t options{};
    std::string root;
  };
  struct Told {
    uint64_t number = 0;
    std::string sentence;
  };
  // A stream as it was handed over, with copies of what it points to.
  struct Stream {
    ccom_device_stream_t description{};
    std::vector<ccom_device_collective_t> collectives;
    std::vector<std::vector<ccom_device_member_t>> members;
    std::vector<std::string> names;
    std::vector<std::vector<uint64_t>> counts;
  };

  ccom_status_t init_result = CCOM_SUCCESS;
  ccom_status_t status = CCOM_SUCCESS;
  std::string last_error;
  std::vector<Joined> joined;
  int communicators = 0;
  std::vector<ccom_collective_t> ran;
  // What ccom_run does; unset: each rank gives what this one gives.
  std::function<ccom_status_t(const ccom_collective_t&)> run;
  std::vector<Told> told;
  std::vector<ccom_notice_t> notices;

  std::vector<Stream> scratched, compiled;
  // Of each collective of a stream.
  std::function<ccom_status_t(uint32_t number, uint64_t& bytes)> scratch;
  ccom_status_t compile_result = CCOM_SUCCESS;
  std::string device_error;
  ccom_device_program_t program{};
  std::vector<const ccom_device_program_t*> freed;
  // Of the proxy: polls come from a thread of the runtime.
  ccom_status_t proxy_result = CCOM_SUCCESS;
  ccom_device_host_t host{};
  std::atomic<int> proxies = 0, polls = 0;
  std::atomic<ccom_status_t> poll_result = CCOM_SUCCESS;
  std::vector<uint32_t> added_streams;
  std::string description;
  std::vector<uint32_t> described;  // positions that were asked about
};

class FakeCcom {
 public:
  FakeCcom() : named_("NEURON_CCOM_LIBRARY", path()) {
    const auto library = runtime::collectives_library();
    if (!library) throw std::runtime_error(library.error().sentence);
    void* handle = dlopen(path().c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) throw std::runtime_error("the runtime has opened another library");
    state_ = reinterpret_cast<FakeCcomState* (*)()>(dlsym(handle, "fake_ccom_state"))();
    renew();
    dlclose(handle);
  }
  ~FakeCcom() { renew(); }

  FakeCcomState* operator->() { return state_; }
  static std::string path() { return built("tests/fake-ccom.so"); }

 private:
  // Atomics cannot be assigned.
  void renew() {
    state_->~FakeCcomState();
    new (state_) FakeCcomState;
  }

  Setting named_;
  FakeCcomState* state_ = nullptr;
};

}  // namespace neuron::test

#endif
