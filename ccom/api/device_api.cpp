// SPDX-License-Identifier: Apache-2.0
// The C edge of collectives on devices: it hands out the bytes of programs.
#include <ccom/ccom_device.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "ccom/device/stream_planner.h"
#include "driver/base/guarded.h"

namespace neuron::ccom {
namespace {

struct OwnedProgram {
  ccom_device_program_t shown;  // must be first: callers hold its address
  DeviceProgram program;
  std::vector<ccom_device_message_t> messages;
  std::vector<const char*> plans, names, algorithms;
  std::vector<ccom_device_note_t> notes;
  std::vector<ccom_device_size_t> sizes;
  std::vector<ccom_device_waiting_t> waits;
};

static_assert(static_cast<unsigned>(NoteAction::kExpect) == CCOM_DEVICE_EXPECT);
static_assert(static_cast<unsigned>(WaitReason::kOwnTransfer) == CCOM_DEVICE_WAIT_TRANSFER);

size_t put_text(std::string_view from, char* text, size_t size) {
  if (text != nullptr && size != 0) {
    const size_t length = std::min(from.size(), size - 1);
    if (length != 0) std::memcpy(text, from.data(), length);  // an empty view may have no address
    text[length] = 0;
  }
  return from.size();
}

// Runs `work`; its result becomes the caller's status and sentence.
template <class Work>
ccom_status_t guarded(char* error, size_t error_size, Work work) noexcept {
  const auto failed = [&](const char* what, bool memory_ran_out) {
    put_text(memory_ran_out ? "no memory is left to compile a collective" : what, error,
             error_size);
    return memory_ran_out ? CCOM_RESOURCE : CCOM_SYSTEM;
  };
  return base::guarded(
      [&] {
        const Result<void> result = work();
        put_text(result ? std::string_view() : result.error().sentence, error, error_size);
        return result ? CCOM_SUCCESS : result.error().status;
      },
      failed);
}

void show(OwnedProgram& owned) {
  const DeviceProgram& program = owned.program;
  owned.shown.code = program.code.data();
  owned.shown.instructions = static_cast<uint32_t>(program.notes.size());
  for (uint32_t e = 0; e < kDmaEngines; ++e) {
    const DescriptorRing& ring = program.rings[e];
    owned.shown.rings[e] = {ring.m2s.data(), ring.s2m.data(),
                            static_cast<uint32_t>(ring.m2s.size()),
                            static_cast<uint32_t>(ring.s2m.size())};
  }
  owned.shown.moved_bytes = program.moved_bytes;
  for (const CrossingMessage& message : program.crossing) {
    owned.messages.push_back({message.sends ? 1u : 0u, message.peer, message.collective,
                              message.channel, message.semaphore, message.address, message.bytes});
  }
  owned.shown.nic_latency_ps = program.nic_latency_ps;
  owned.shown.nic_bytes_per_second = program.nic_bytes_per_second;
  owned.shown.messages = owned.messages.data();
  owned.shown.message_count = static_cast<uint32_t>(owned.messages.size());
  for (const std::string& plan : program.plans) owned.plans.push_back(plan.c_str());
  owned.shown.plans = owned.plans.data();
  owned.shown.plan_count = static_cast<uint32_t>(owned.plans.size());
  for (const std::string& name : program.names) owned.names.push_back(name.c_str());
  for (const std::string& text : program.algorithms) owned.algorithms.push_back(text.c_str());
  for (const InstructionNote& note : program.notes) {
    owned.notes.push_back({.action = static_cast<uint32_t>(note.action),
                           .wait = static_cast<uint32_t>(note.reason),
                           .collective = note.collective,
                           .peer = note.target,
                           .wait_peer = note.peer,
                           .reserved = 0,
                           .bytes = note.bytes});
    for (const WaitNote& wait : note.waits) {
      owned.waits.push_back({.wait = static_cast<uint32_t>(wait.reason),
                             .peer = wait.peer,
                             .semaphore = wait.semaphore,
                             .reserved = 0,
                             .bytes = wait.bytes});
    }
  }
  for (const CollectiveSize& size : program.sizes) {
    owned.sizes.push_back({size.input, size.output, size.whole});
  }
  owned.shown.names = owned.names.data();
  owned.shown.algorithms = owned.algorithms.data();
  owned.shown.notes = owned.notes.data();
  owned.shown.sizes = owned.sizes.data();
  owned.shown.waits = owned.waits.data();
}

}  // namespace
}  // namespace neuron::ccom

using namespace neuron::ccom;

ccom_status_t ccom_device_scratch(const ccom_device_stream_t* stream, uint32_t number,
                                  uint64_t* bytes, char* error, size_t error_size) {
  return guarded(error, error_size, [&]() -> Result<void> {
    NEURON_TRY(needed, scratch_bytes(stream, number));
    if (bytes == nullptr) return fail(CCOM_INVALID, "there is no place for the number of bytes");
    *bytes = needed;
    return {};
  });
}

ccom_status_t ccom_device_compile(const ccom_device_stream_t* stream,
                                  const ccom_device_program_t** program, char* error,
                                  size_t error_size) {
  return guarded(error, error_size, [&]() -> Result<void> {
    if (program == nullptr) return fail(CCOM_INVALID, "there is no place for the program");
    NEURON_TRY(compiled, plan_stream(stream));
    auto owned = std::make_unique<OwnedProgram>();
    owned->program = std::move(compiled);
    show(*owned);
    *program = &owned.release()->shown;
    return {};
  });
}

size_t ccom_device_describe(const ccom_device_program_t* program, uint32_t pc, char* text,
                            size_t size) {
  return neuron::base::guarded(
      [&] {
        if (program == nullptr) return put_text({}, text, size);
        return put_text(reinterpret_cast<const OwnedProgram*>(program)->program.describe(pc), text,
                        size);
      },
      [&](const char*, bool) { return put_text({}, text, size); });
}

void ccom_device_free(const ccom_device_program_t* program) {
  delete reinterpret_cast<const OwnedProgram*>(program);
}
