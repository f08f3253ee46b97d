// SPDX-License-Identifier: Apache-2.0
//
// A device of this host as the machine sees it. Telemetry gives its state. Workers reset and verify
// it; they are processes, which can be abandoned when they hang.
// Callers: a thread for each device. Fails: as its calls say; a worker that hangs or dies fails.
#ifndef TOOLS_NEURON_RESET_MACHINE_DEVICE_SUBJECT_H
#define TOOLS_NEURON_RESET_MACHINE_DEVICE_SUBJECT_H

#include <memory>

#include "tools/neuron-reset/machine/machine.h"
#include "tools/telemetry/source.h"

namespace neuron::reset {

class DeviceSubject final : public Subject {
 public:
  explicit DeviceSubject(int device) : device_(device), source_(telemetry::open_host_source()) {}
  Clock::time_point now() override { return Clock::now(); }
  void pause() override;
  Sight look(Clock::time_point end) override;
  Attempt reset(bool force, Clock::time_point end) override;
  checks::Findings verify_memory(Clock::time_point end) override;
  checks::Findings verify_core(const checks::ProgramCore& core, Clock::time_point end) override;

 private:
  checks::Job job(const char* kind, int core, Clock::time_point end) const;
  static checks::Findings findings_of(const checks::Job& job);

  const int device_;
  const std::unique_ptr<telemetry::Source> source_;
};

}  // namespace neuron::reset

#endif
