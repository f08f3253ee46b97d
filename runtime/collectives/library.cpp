// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/library.h"

#include <dlfcn.h>
#include <signal.h>

#include <array>
#include <mutex>
#include <string>

#include "runtime/base/environment.h"

namespace neuron::runtime {
namespace {

constexpr const char* kName = "libccom.so.1";
constexpr const char* kVariable = "NEURON_CCOM_LIBRARY";

// The directory of the file that holds this code, with its slash; empty if it is not known.
std::string own_directory() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&own_directory), &info) == 0 || !info.dli_fname) {
    return {};
  }
  const std::string path = info.dli_fname;
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

// Restores the program's signal handlers. libccom needs libfabric, whose providers install handlers
// of their own (backtraces) when they are loaded.
class SignalsOfTheProgram {
 public:
  SignalsOfTheProgram() {
    for (size_t i = 0; i < kNumbers.size(); ++i) {
      known_[i] = sigaction(kNumbers[i], nullptr, &actions_[i]) == 0;
    }
  }
  ~SignalsOfTheProgram() {
    for (size_t i = 0; i < kNumbers.size(); ++i) {
      if (known_[i]) sigaction(kNumbers[i], &actions_[i], nullptr);
    }
  }
  SignalsOfTheProgram(const SignalsOfTheProgram&) = delete;
  SignalsOfTheProgram& operator=(const SignalsOfTheProgram&) = delete;

 private:
  static constexpr std::array kNumbers = {SIGINT, SIGILL,  SIGABRT, SIGBUS,
                                          SIGFPE, SIGSEGV, SIGTERM};
  std::array<struct sigaction, kNumbers.size()> actions_{};
  std::array<bool, kNumbers.size()> known_{};
};

template <class Function>
bool find(void* handle, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr && missing.empty()) missing = name;
  return function != nullptr;
}

Result<CollectivesLibrary> open() {
  const std::string named = environment_text(kVariable);
  const std::string beside = own_directory() + kName;
  std::string tried;
  void* handle = nullptr;
  const auto attempt = [&](const std::string& path) {
    if (handle != nullptr) return;
    const SignalsOfTheProgram signals;
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) tried += std::string(tried.empty() ? "" : "; ") + dlerror();
  };
  if (!named.empty()) {
    attempt(named);
  } else {
    attempt(beside);
    attempt(kName);
  }
  if (handle == nullptr) {
    return fail(
        NRT_FAILURE,
        "collectives need {}, which cannot be loaded: {}; install it beside libnrt.so.1, or "
        "give its path in {}",
        kName, tried, kVariable);
  }
  CollectivesLibrary library;
  std::string missing;
  find(handle, "ccom_init", library.init, missing);
  find(handle, "ccom_free", library.free, missing);
  find(handle, "ccom_run", library.run, missing);
  find(handle, "ccom_status", library.status, missing);
  find(handle, "ccom_tell", library.tell, missing);
  find(handle, "ccom_told", library.told, missing);
  find(handle, "ccom_last_error", library.last_error, missing);
  find(handle, "ccom_device_scratch", library.device_scratch, missing);
  find(handle, "ccom_device_compile", library.device_compile, missing);
  find(handle, "ccom_device_describe", library.device_describe, missing);
  find(handle, "ccom_device_free", library.device_free, missing);
  find(handle, "ccom_device_proxy_open", library.proxy_open, missing);
  find(handle, "ccom_device_proxy_add", library.proxy_add, missing);
  find(handle, "ccom_device_proxy_poll", library.proxy_poll, missing);
  find(handle, "ccom_device_proxy_close", library.proxy_close, missing);
  if (!missing.empty()) {
    return fail(NRT_FAILURE, "{} has no function {}: it does not belong to this libnrt.so.1",
                named.empty() ? kName : named.c_str(), missing);
  }
  return library;
}

}  // namespace

Result<const CollectivesLibrary*> collectives_library() {
  static std::mutex mutex;  // library
  static CollectivesLibrary library;
  const std::lock_guard lock(mutex);
  if (library.init == nullptr) {
    NEURON_TRY(opened, open());
    library = opened;
  }
  return &library;
}

NRT_STATUS status_of_collectives(ccom_status_t status) {
  switch (status) {
    case CCOM_SUCCESS:
      return NRT_SUCCESS;
    case CCOM_INVALID:
    case CCOM_MISMATCH:
      return NRT_INVALID;
    case CCOM_TIMEOUT:
      return NRT_TIMEOUT;
    case CCOM_RESOURCE:
      return NRT_RESOURCE;
    case CCOM_UNSUPPORTED:
      return NRT_UNSUPPORTED_NEFF_VERSION;
    case CCOM_IN_PROGRESS:
      return NRT_COLL_PENDING;
    default:
      return NRT_FAILURE;
  }
}

}  // namespace neuron::runtime
