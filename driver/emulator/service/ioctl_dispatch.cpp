// SPDX-License-Identifier: Apache-2.0
// What every call passes before its own function sees it: its number, the size of its argument, who
// may make it.
#include <cerrno>
#include <exception>
#include <new>
#include <span>

#include "driver/base/abandonment.h"
#include "driver/emulator/service/calls.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/session.h"

namespace neuron::service {

const Call* find_call(uint32_t request) {
  for (const std::span<const Call> calls :
       {kCopyCalls, kMemoryCalls, kDmaCalls, kCoreCalls, kDeviceCalls}) {
    for (const Call& call : calls) {
      if (call.request == request) return &call;
    }
  }
  return nullptr;
}

int Session::ioctl(unsigned long request, void* argument) {
  if (!instance_.is_usable()) return instance_.refuse_after_fork();
  const nd_ioctl* call = nullptr;
  if (nd_ioctl_find(request, &call) != 0) {
    if (call) {
      return fail(-EINVAL, "device %u: call 0x%lx has an argument of %lu bytes; %s is 0x%x",
                  device_.index(), request, static_cast<unsigned long>(_IOC_SIZE(request)),
                  call->name, call->request);
    }
    return fail(-EINVAL, "device %u: there is no call 0x%lx", device_.index(), request);
  }
  if (restricted_ && call->access != ND_ACCESS_ANY) {
    return fail(-EINVAL,
                "device %u: %s needs a descriptor opened O_RDWR, this one was opened O_WRONLY",
                device_.index(), call->name);
  }
  if (call->argument_size && !argument) {
    return fail(-EFAULT, "device %u: %s needs an argument of %u bytes, found a null pointer",
                device_.index(), call->name, call->argument_size);
  }
  // Marks of cores concern all devices of the host: they are answered without this one.
  if (!restricted_) {
    if (int error = check_present()) return error;
  }
  const Call* served = find_call(call->request);
  if (!served) {
    return fail(-EOPNOTSUPP, "device %u: an emulated chip does not serve %s", device_.index(),
                call->name);
  }
  const base::Abandonment client(abandoned_);
  try {
    if (served->check) {
      if (int error = served->check(*this, argument)) return error;
    }
    return served->carry_out(*this, argument);
  } catch (const std::bad_alloc&) {
    return fail(-ENOMEM, "device %u: the process is out of memory in %s", device_.index(),
                call->name);
  } catch (const std::exception& failure) {
    return fail(-EIO, "device %u: %s was given up: %s", device_.index(), call->name,
                failure.what());
  }
}

}  // namespace neuron::service
