// SPDX-License-Identifier: Apache-2.0
// Ranks whose buffers are memory of the host: over libccom.so.1, within one host and between hosts.
//
// Callers: the threads of the ranks, one participant each. Owns: its communicators and the memory
// allocated from them. Fails with the sentences of the library.
#ifndef TOOLS_NCCOM_TEST_RUN_HOST_PARTICIPANT_H
#define TOOLS_NCCOM_TEST_RUN_HOST_PARTICIPANT_H

#include <memory>
#include <vector>

#include "tools/nccom-test/run/participant.h"

namespace neuron::nccom {

struct HostSettings {
  std::string root;    // ADDRESS:PORT; empty: all ranks are in this process
  std::string secret;  // empty: the library's default
  std::string providers;
  uint32_t timeout_ms = 60000;
  uint64_t memory_bytes = 0;
  bool no_shared_memory = false;
  bool fast_order = false;
  bool unique_buffers = false;
  bool shared_output = false;
  bool every_result = false;  // repetitions of an operation have outputs of their own, too
  uint32_t operations = 1;    // of a run: so many unique buffers
};

// The most memory that a step of the job needs, for HostSettings::memory_bytes.
uint64_t memory_needed(const Job& job, uint32_t ranks, const HostSettings& settings);

// All ranks of the job, in this process, without sockets.
ccom::Result<std::vector<std::unique_ptr<Participant>>> make_host_participants(
    uint32_t ranks, const HostSettings& settings);
// One of them; the others may be anywhere.
std::unique_ptr<Participant> make_host_participant(uint32_t rank, uint32_t ranks,
                                                   const HostSettings& settings);

}  // namespace neuron::nccom

#endif
