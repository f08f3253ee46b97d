// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/runtime/collectives/fake_ccom.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>

using neuron::test::FakeCcomState;

namespace {

FakeCcomState state;

// As providers of libfabric do.
void report(int) {}
[[gnu::constructor]] void take_signals() {
  for (const int number : {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGTERM}) {
    signal(number, report);
  }
}

FakeCcomState::Stream copy_of(const ccom_device_stream_t& stream) {
  FakeCcomState::Stream copy;
  copy.description = stream;
  copy.collectives.assign(stream.collectives, stream.collectives + stream.count);
  for (const ccom_device_collective_t& c : copy.collectives) {
    copy.members.emplace_back(c.members, c.members + c.size);
    copy.names.emplace_back(c.name);
    copy.counts.emplace_back();
    if (c.counts != nullptr) copy.counts.back().assign(c.counts, c.counts + c.size);
  }
  return copy;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

FakeCcomState* fake_ccom_state() { return &state; }

ccom_status_t ccom_init(uint32_t rank, uint32_t size, const ccom_options_t* options,
                        ccom_comm_t** comm) {
  state.joined.push_back({rank, size, *options, options->root});
  if (state.init_result != CCOM_SUCCESS) return state.init_result;
  ++state.communicators;
  *comm = reinterpret_cast<ccom_comm_t*>(&state);
  return CCOM_SUCCESS;
}

ccom_status_t ccom_free(ccom_comm_t*) {
  --state.communicators;
  return CCOM_SUCCESS;
}

ccom_status_t ccom_run(ccom_comm_t*, const ccom_collective_t* collective) {
  state.ran.push_back(*collective);
  if (state.run) return state.run(*collective);
  auto* to = static_cast<char*>(collective->output);
  for (uint32_t rank = 0; rank < state.joined.back().size; ++rank) {
    std::memcpy(to + rank * collective->count, collective->input, collective->count);
  }
  return CCOM_SUCCESS;
}

ccom_status_t ccom_status(const ccom_comm_t*) { return state.status; }

ccom_status_t ccom_tell(ccom_comm_t*, uint64_t number, const char* sentence) {
  state.told.push_back({number, sentence});
  return CCOM_SUCCESS;
}

ccom_status_t ccom_told(const ccom_comm_t*, uint64_t since, ccom_notice_t* notice) {
  for (const ccom_notice_t& known : state.notices) {
    if (known.number < since) continue;
    *notice = known;
    return CCOM_SUCCESS;
  }
  return CCOM_IN_PROGRESS;
}

const char* ccom_last_error() { return state.last_error.c_str(); }

ccom_status_t ccom_device_scratch(const ccom_device_stream_t* stream, uint32_t number,
                                  uint64_t* bytes, char* error, size_t error_size) {
  state.scratched.push_back(copy_of(*stream));
  std::snprintf(error, error_size, "%s", state.device_error.c_str());
  return state.scratch ? state.scratch(number, *bytes) : CCOM_SUCCESS;
}

ccom_status_t ccom_device_compile(const ccom_device_stream_t* stream,
                                  const ccom_device_program_t** program, char* error,
                                  size_t error_size) {
  state.compiled.push_back(copy_of(*stream));
  std::snprintf(error, error_size, "%s", state.device_error.c_str());
  if (state.compile_result == CCOM_SUCCESS) *program = &state.program;
  return state.compile_result;
}

size_t ccom_device_describe(const ccom_device_program_t*, uint32_t pc, char* text, size_t size) {
  state.described.push_back(pc);
  std::snprintf(text, size, "%s", state.description.c_str());
  return state.description.size();
}

void ccom_device_free(const ccom_device_program_t* program) { state.freed.push_back(program); }

struct ccom_device_proxy {};
static ccom_device_proxy the_proxy;

ccom_status_t ccom_device_proxy_open(ccom_comm_t*, const ccom_device_host_t* host,
                                     ccom_device_proxy_t** proxy) {
  if (state.proxy_result != CCOM_SUCCESS) return state.proxy_result;
  state.host = *host;
  ++state.proxies;
  *proxy = &the_proxy;
  return CCOM_SUCCESS;
}

ccom_status_t ccom_device_proxy_add(ccom_device_proxy_t*, uint32_t stream,
                                    const ccom_device_program_t*) {
  state.added_streams.push_back(stream);
  return CCOM_SUCCESS;
}

ccom_status_t ccom_device_proxy_poll(ccom_device_proxy_t*, bool* moved, bool* busy) {
  ++state.polls;
  *moved = *busy = false;
  return state.poll_result;
}

void ccom_device_proxy_close(ccom_device_proxy_t*) { --state.proxies; }

}  // extern "C"
#pragma GCC visibility pop
