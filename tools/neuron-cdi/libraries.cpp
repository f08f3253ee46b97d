// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-cdi/libraries.h"

#include <dlfcn.h>
#include <nrt/nrt_version.h>
#include <stdlib.h>

#include <memory>

namespace neuron::cdi {
namespace {

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> resolved(realpath(path.c_str(), nullptr), &free);
  return resolved ? std::string(resolved.get()) : std::string();
}

}  // namespace

runtime::Result<std::vector<Mount>> find_libraries(const std::string& folder) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&nrt_get_version), &info) == 0 || info.dli_fname == nullptr) {
    return runtime::fail(NRT_FAILURE, "the file of libnrt.so.1 is not known to the loader");
  }
  const std::string runtime = info.dli_fname;
  const size_t slash = runtime.rfind('/');
  const std::string beside = slash == std::string::npos ? "" : runtime.substr(0, slash + 1);
  std::vector<Mount> mounts;
  for (const char* name : {"libnrt.so.1", "libccom.so.1", "libneuron-emulator.so.1"}) {
    const std::string host = real_path(beside + name);
    if (!host.empty()) mounts.push_back({host, folder + "/" + name});
  }
  if (mounts.empty()) {
    return runtime::fail(NRT_FAILURE, "no library of the runtime is beside {}", runtime);
  }
  return mounts;
}

}  // namespace neuron::cdi
