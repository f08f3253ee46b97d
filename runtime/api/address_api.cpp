// SPDX-License-Identifier: Apache-2.0
//
// Calls that take an address, as nrt_tensor_get_va returns it, instead of a handle.
#include <cstring>

#include "nrt/nrt.h"
#include "nrt/nrt_experimental.h"
#include "runtime/api/guard.h"
#include "runtime/base/host_memory.h"
#include "runtime/device/driver_error.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

Result<MappingTable::Range> mapped_range(Session& session, uint64_t va, uint64_t size) {
  const auto range = session.mappings.find(va, size);
  if (!range) {
    return fail(NRT_INVALID,
                "{} bytes at address {:#x} are not inside one tensor; use an address that "
                "nrt_tensor_get_va gave",
                size, va);
  }
  return *range;
}

// Callers understand every status but NRT_RESOURCE as "do without a dma-buf".
Result<void> export_range(uint64_t va, uint64_t size, int* fd) {
  int descriptor = -1;
  if (const int result = ndl_get_dmabuf_fd(va, size, &descriptor); result != 0) {
    Error error =
        driver_error(NRT_FAILURE, result, "exporting {} bytes at {:#x} as dma-buf", size, va);
    error.status = NRT_FAILURE;
    return error;
  }
  *fd = descriptor;
  return {};
}

}  // namespace

NRT_EXPORT NRT_STATUS nrt_memcpy_to_device(void* dest, const void* src, size_t size) {
  return guarded("nrt_memcpy_to_device", [&](Session& session) -> Result<void> {
    if (size == 0) return {};
    if (dest == nullptr) return null_argument("dest");
    if (src == nullptr) return null_argument("src");
    NEURON_TRY(range, mapped_range(session, reinterpret_cast<uint64_t>(dest), size));
    NEURON_CHECK(check_host_memory(src, size, HostUse::kRead));
    std::memcpy(dest, src, size);
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_get_dmabuf_fd(uint64_t va, uint64_t size, int* fd) {
  return guarded(
      "nrt_get_dmabuf_fd",
      [&](Session& session) -> Result<void> {
        if (fd == nullptr) return null_argument("fd");
        NEURON_TRY(range, mapped_range(session, va, size));
        return export_range(va, size, fd);
      },
      Failure::kAnswer);
}

NRT_EXPORT NRT_STATUS nrt_get_dmabuf_fd_v2(uint64_t va, uint64_t size, int* fd, uint64_t* offset) {
  return guarded(
      "nrt_get_dmabuf_fd_v2",
      [&](Session& session) -> Result<void> {
        if (fd == nullptr) return null_argument("fd");
        if (offset == nullptr) return null_argument("offset");
        NEURON_TRY(range, mapped_range(session, va, size));
        NEURON_CHECK(export_range(range.start, range.size, fd));
        *offset = va - range.start;
        return {};
      },
      Failure::kAnswer);
}
