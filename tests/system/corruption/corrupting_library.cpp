// SPDX-License-Identifier: Apache-2.0
// Damages results between a program and its libraries: preloaded, it passes ccom_run and
// nrt_execute on and then flips a bit of an output, as a transport or a memory does that is not in
// order.
//
// Settings: CORRUPT_CALL, the number of the call, from 1, of each thread that is damaged (a thread
// is a rank); CORRUPT_RANK, only that one (libccom alone knows ranks); CORRUPT_BYTE, where in the
// output. Barriers do not count. Threads: any. Fails: aborts if the library's function is missing,
// which the test then sees.
#include <ccom/ccom.h>
#include <dlfcn.h>
#include <nrt/nrt.h>

#include <cstddef>
#include <cstdlib>

namespace {

long setting(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atol(text);
}

template <class Function>
Function next_of(const char* name) {
  auto* found = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  if (found == nullptr) std::abort();
  return found;
}

// True in the call that is to be damaged.
bool is_the_call() {
  thread_local long calls = 0;
  return ++calls == setting("CORRUPT_CALL", 0);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ccom_status_t ccom_run(
    ccom_comm_t* comm, const ccom_collective_t* collective) {
  static const auto next =
      next_of<ccom_status_t (*)(ccom_comm_t*, const ccom_collective_t*)>("ccom_run");
  const ccom_status_t status = next(comm, collective);
  const bool counts = collective->operation != CCOM_BARRIER && collective->output != nullptr;
  if (counts && is_the_call() && setting("CORRUPT_RANK", 0) == static_cast<long>(ccom_rank(comm))) {
    static_cast<std::byte*>(collective->output)[setting("CORRUPT_BYTE", 0)] ^= std::byte{0x40};
  }
  return status;
}

extern "C" __attribute__((visibility("default"))) NRT_STATUS nrt_execute(
    nrt_model_t* model, const nrt_tensor_set_t* inputs, nrt_tensor_set_t* outputs) {
  static const auto next =
      next_of<NRT_STATUS (*)(nrt_model_t*, const nrt_tensor_set_t*, nrt_tensor_set_t*)>(
          "nrt_execute");
  const NRT_STATUS status = next(model, inputs, outputs);
  nrt_tensor_t* output = nullptr;
  if (is_the_call() && nrt_get_tensor_from_tensor_set(outputs, "y0_0", &output) == NRT_SUCCESS) {
    const auto at = static_cast<size_t>(setting("CORRUPT_BYTE", 0));
    std::byte byte{};
    nrt_tensor_read(output, &byte, at, 1);
    byte ^= std::byte{0x40};
    nrt_tensor_write(output, &byte, at, 1);
  }
  return status;
}
