// SPDX-License-Identifier: Apache-2.0
//
// One file of a core dump, as runtime/exec/core_dump.h writes it: text in lines.
// Callers: neuron-dump, tests. Thread-safe: values. Fails with NRT_INVALID and a sentence for what
// is no such file. Lines that this program does not know are left out; the file has them.
#ifndef TOOLS_NEURON_DUMP_CORE_FILE_H
#define TOOLS_NEURON_DUMP_CORE_FILE_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::dump {

struct Engine {
  std::string name, state, at;
  uint64_t time_ps = 0;
  uint32_t waiting = 0, wait_value = 0;
  std::string exception;    // empty if there is none
  std::string instruction;  // at which it is
};

struct CoreFile {
  std::string failure, model, execution, core;
  std::vector<Engine> engines;
  std::map<uint32_t, std::string> names;  // of semaphores: "semaphore 18 (dma_0)"
  std::vector<std::string> semaphores;    // that are not 0: "18 (dma_0) = 16"
  std::vector<std::string> others;        // DMA queues, a CC core
};

bool is_core_file(std::string_view text);
runtime::Result<CoreFile> parse_core_file(const std::string& text);
// A line an engine. What the file says cannot command the terminal.
std::string text_of(const CoreFile& file);

// The files of a dump in a folder, or the one that is named; of the dump with the number `log_id`
// alone unless that is empty. Sorted. Links are passed over: who may write there may point
// anywhere.
runtime::Result<std::vector<std::string>> core_files(const std::string& place,
                                                     const std::string& log_id);

}  // namespace neuron::dump

#endif
