// SPDX-License-Identifier: Apache-2.0
// The sentence for a collective in host memory that does not advance: the missing ranks, and their
// last operations.
//
// Callers: HostExecutor. Threads: that of the task. Cannot fail.
#ifndef CCOM_PROGRESS_HOST_REPORT_H
#define CCOM_PROGRESS_HOST_REPORT_H

#include <chrono>

#include "ccom/progress/host_task.h"

namespace neuron::ccom {

Error host_timeout(const HostTask& task, std::chrono::milliseconds silent);

}  // namespace neuron::ccom

#endif
