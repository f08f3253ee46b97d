// SPDX-License-Identifier: Apache-2.0
// The processes of a job that train together, as a communicator of libccom: they agree on numbers
// and texts, and those that are left after a failure go on as a smaller group.
//
// libccom is looked up when a group of several processes is joined, so that the program needs it
// for that alone. Callers: the parallel training; one thread. Owns the communicator. Fails: false,
// and a sentence in error().
#ifndef TOOLS_NEURON_DIGITS_PROCESS_GROUP_H
#define TOOLS_NEURON_DIGITS_PROCESS_GROUP_H

#include <ccom/ccom.h>

#include <cstdint>
#include <string>

namespace neuron::digits {

class ProcessGroup {
 public:
  ProcessGroup() = default;
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  // Process `process` of `processes` meets the others at `root`, ADDRESS:PORT of process 0. A group
  // of one process needs no root.
  bool join(uint32_t process, uint32_t processes, const std::string& root);
  // After a failure: the group of those that are alive and call this, numbered anew in their order.
  bool shrink();
  uint32_t process() const { return process_; }
  uint32_t processes() const { return processes_; }

  // The least of the numbers of all processes.
  bool least(uint64_t& number);
  // The text of process 0; up to 255 bytes.
  bool of_first(std::string& text);
  const std::string& error() const { return error_; }

 private:
  struct Library;
  bool find_library();
  bool fail(const std::string& what);
  bool run(ccom_operation_t operation, ccom_type_t type, const void* input, void* output,
           uint64_t count);

  const Library* library_ = nullptr;
  ccom_comm_t* comm_ = nullptr;
  uint32_t process_ = 0, processes_ = 1;
  std::string error_;
};

}  // namespace neuron::digits

#endif
