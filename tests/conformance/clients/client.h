// SPDX-License-Identifier: Apache-2.0
// A client that opens libnrt.so.1 as it runs, and knows its functions by name and by the arguments
// that the client believes them to have; most have no header of the runtime.
//
// Callers: tests of this folder, one thread. Owns a reference of the library, which stays in the
// process behind the last one. Fails: a name that is missing fails the test.
#ifndef TESTS_CONFORMANCE_CLIENTS_CLIENT_H
#define TESTS_CONFORMANCE_CLIENTS_CLIENT_H

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/setting.h"

namespace neuron::test {

class Library {
 public:
  explicit Library(int flags = RTLD_NOW | RTLD_LOCAL) : handle_(::dlopen("libnrt.so.1", flags)) {}
  ~Library() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void* handle() const { return handle_; }
  // The function `name`, or null.
  template <class Function>
  Function* look_up(const char* name) const {
    return reinterpret_cast<Function*>(handle_ == nullptr ? nullptr : ::dlsym(handle_, name));
  }
  template <class Function>
  Function* get(const char* name) const {
    Function* found = look_up<Function>(name);
    if (found == nullptr) throw std::runtime_error(std::string("libnrt.so.1 has no ") + name);
    return found;
  }

 private:
  void* const handle_;
};

// The numbers of NRT_STATUS that clients compare with.
enum : int { kSuccess = 0, kFailure = 1, kInvalid = 2, kResource = 4, kClosed = 14 };

inline std::vector<uint8_t> pattern(size_t size, unsigned seed = 1) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251 + seed);
  return bytes;
}

// An emulated device, and what other tests of the process left is closed.
class Client : public ::testing::Test {
 protected:
  explicit Client(const char* emulator = "trn1.2xlarge")
      : emulator_("NEURON_EMULATOR", emulator), quiet_("NEURON_RT_LOG_LEVEL", "QUIET") {}
  void TearDown() override {
    const Library library;
    library.get<void()>("nrt_close")();
  }
  Setting emulator_;

 private:
  Setting quiet_;
};

}  // namespace neuron::test

#endif
