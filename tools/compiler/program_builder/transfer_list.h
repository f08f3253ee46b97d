// SPDX-License-Identifier: Apache-2.0
//
// The transfers of an engine as its JSON lists them: each once for each time that it happens, in
// the order of the triggers, because a trigger moves the next one of its ring. A function has rings
// of its own, so its transfers are listed once.
// Callers: NeffEmitter. Thread-safe: no. Borrows all that it is given. Cannot fail.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_TRANSFER_LIST_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_TRANSFER_LIST_H

#include <boost/json.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "tools/compiler/program_builder/schedule.h"
#include "tools/compiler/program_builder/semaphore_numbers.h"

namespace neuron::builder {

class TransferList {
 public:
  using VariableName = std::function<std::string(int32_t buffer)>;

  TransferList(const Schedule& schedule, const SemaphoreNumbers& semaphores,
               VariableName variable_name)
      : schedule_(schedule), semaphores_(semaphores), variable_name_(std::move(variable_name)) {}

  // As JSON text: a list of objects takes twenty times the memory.
  std::string of_engine(unsigned engine);

 private:
  // Steps [first, end) as often as the loops around them say.
  void list(size_t first, size_t end);
  void append(const Transfer& transfer);
  // Where the access lies in the present round of all loops.
  uint64_t offset_of(const BufferAccess& access) const;
  void add_side(boost::json::object& description, const char* name, const BufferAccess& access,
                bool typed) const;

  const Schedule& schedule_;
  const SemaphoreNumbers& semaphores_;
  VariableName variable_name_;
  unsigned engine_ = 0;
  std::string list_;
  int64_t round_ = 0;                   // Of the innermost loop
  std::map<uint32_t, int64_t> rounds_;  // By index
  std::string function_;                // That is listed; empty: the main program
  std::set<std::string> begun_;         // Queues that have transfers of it
};

}  // namespace neuron::builder

#endif
