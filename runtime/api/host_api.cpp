// SPDX-License-Identifier: Apache-2.0
//
// Calls about parts of the host beside its devices: network adapters and plug-ins, microcode; and
// what is left of implicitly asynchronous execution.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "ndl/ndl_memory.h"
#include "nrt/nrt.h"
#include "nrt/nrt_experimental.h"
#include "runtime/api/guard.h"
#include "runtime/async/async_queues.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

// The plug-in and its interface, newest first.
constexpr const char* kPlugin = "libnccom-net.so";
constexpr const char* kInterfaces[] = {"ncclNetPlugin_v5", "ncclNetPlugin_v4"};

void* find_plugin(std::string& why) {
  void* library = ::dlopen(kPlugin, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = ::dlerror();
    why = format("there is no network plug-in: {}", error != nullptr ? error : kPlugin);
    return nullptr;
  }
  for (const char* name : kInterfaces) {
    // It stays open: the caller gets a part of it.
    if (void* interface = ::dlsym(library, name)) return interface;
  }
  ::dlclose(library);
  why = format("{} has neither {} nor {}", kPlugin, kInterfaces[0], kInterfaces[1]);
  return nullptr;
}

// The device in whose memory the address lies.
Result<Device*> device_at(const Session& session, const void* va) {
  int index = -1;
  int hbm = 0;
  if (session.mappings.find(reinterpret_cast<uintptr_t>(va), 1) &&
      ndl_get_va_placement(va, &index, &hbm) == 0) {
    if (Device* device = session.device(index)) return device;
  }
  return fail(NRT_INVALID, "address {} lies in no tensor on a device", va);
}

}  // namespace

NRT_EXPORT void* nrt_get_libnccl_net(int* err, char* err_msg, size_t err_msg_size) {
  void* interface = nullptr;
  const NRT_STATUS status = unguarded_state(
      "nrt_get_libnccl_net",
      [&]() -> Result<void> {
        std::string why;
        interface = find_plugin(why);
        if (err_msg != nullptr && err_msg_size != 0) {
          std::snprintf(err_msg, err_msg_size, "%s", why.c_str());
        }
        if (interface == nullptr) return fail(NRT_FAILURE, "{}", why);
        return {};
      },
      Failure::kAnswer);
  if (err != nullptr) *err = status;
  return interface;
}

NRT_EXPORT NRT_STATUS nrt_get_attached_efa_bdf(const void* va, char* efa_bdf, size_t* len) {
  return guarded(
      "nrt_get_attached_efa_bdf",
      [&](Session& session) -> Result<void> {
        if (efa_bdf == nullptr) return null_argument("efa_bdf");
        if (len == nullptr) return null_argument("len");
        NEURON_TRY(device, device_at(session, va));
        NEURON_TRY(address, device->nearest_adapter());
        if (address.size() >= *len) {
          return fail(NRT_RESOURCE, "the address {} takes {} bytes with its NUL, found room for {}",
                      address, address.size() + 1, *len);
        }
        std::memcpy(efa_bdf, address.c_str(), address.size() + 1);
        *len = address.size();
        return {};
      },
      Failure::kAnswer);
}

NRT_EXPORT NRT_STATUS nrt_set_pool_eng_ucode(const nrt_ucode_info* ucode_info) {
  return unguarded_state("nrt_set_pool_eng_ucode", [&]() -> Result<void> {
    if (ucode_info == nullptr) return null_argument("ucode_info");
    const SessionUse use;
    if (use) {
      return fail(NRT_INVALID,
                  "microcode of the GpSimd engines can be replaced before nrt_init only");
    }
    return fail(
        NRT_FAILURE,
        "the GpSimd engines of this device execute instructions of include/hw/isa.h, and no "
        "microcode: {} and {} bytes of it cannot be used; custom C++ operators come with a NEFF "
        "(neuron-operator makes one of their sources)",
        ucode_info->iram.size, ucode_info->dram.size);
  });
}

NRT_EXPORT NRT_STATUS nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK callback,
                                                       void*) {
  return guarded("nrt_register_async_exec_callback", [&](Session&) -> Result<void> {
    if (callback == nullptr) return null_argument("callback");
    // Every nrt_execute ends before it returns, with its status: nobody is left to be told.
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_async_drain_queued_execs(int32_t vnc) {
  return guarded("nrt_async_drain_queued_execs", [&](Session& session) -> Result<void> {
    NEURON_TRY(core, session.core(vnc));
    AsyncQueues* queues = AsyncQueues::existing(session);
    if (queues == nullptr) return {};
    return queues->wait_for_executions(
        *core, std::chrono::seconds(2 * session.configuration().exec_timeout_s));
  });
}
