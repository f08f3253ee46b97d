// SPDX-License-Identifier: Apache-2.0
//
// What the cores of a failed execution were like, in files, and the program of the operator that
// takes them (neuron-dump).
//
// Dumps are on if /opt/aws/neuron/bin/neuron-dump is executable, or the program that
// NEURON_OPEN_DUMP_PROGRAM names, and NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY and
// NEURON_RT_S3_CORE_DUMP_PREFIX are not both set to nothing. Each physical core has a file:
// engines with their registers and the instructions around them, semaphores, DMA queues; CC cores
// have files of their own if the model has collectives. The contents of SBUF, PSUM and HBM are not
// in them. A session writes at most kMostDumps.
// Callers: the executor, in the turn of the core. Fails: never; the log says why there is no dump.
#ifndef RUNTIME_EXEC_CORE_DUMP_H
#define RUNTIME_EXEC_CORE_DUMP_H

#include <optional>
#include <string>
#include <vector>

#include "runtime/model/loaded_model.h"
#include "runtime/session/session.h"

namespace neuron::runtime {

class CoreDump {
 public:
  static constexpr uint32_t kMostDumps = 16;

  // Before the cores are reset. Nothing if dumps are off.
  static std::optional<CoreDump> write(Session& session, const LoadedModel& model,
                                       const Error& error) noexcept;
  // Runs the program with what the dump is of, and waits for it, at most 30 s.
  void hand_over() const noexcept;

 private:
  // What names and templates of paths say.
  struct Facts {
    std::string time;     // yyyy-mm-dd-HH-MM
    std::string cluster;  // 16 hexadecimal digits, the same on all ranks; zeros without collectives
    std::string log;      // of this dump alone
    std::string instance;
    std::string process, thread;
  };
  static Facts facts_of(const LoadedModel& model, const std::string& root);
  static std::string filled_in(const std::string& pattern, const Facts& facts);
  static std::optional<CoreDump> write_files(Session& session, const LoadedModel& model,
                                             const Error& error);

  std::vector<std::string> command_;
};

}  // namespace neuron::runtime

#endif
