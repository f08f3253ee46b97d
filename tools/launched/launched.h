// SPDX-License-Identifier: Apache-2.0
// What mpirun or srun tells a process that it has started: which of how many it is, on how many
// nodes.
//
// Callers: options of programs that join jobs. Thread-safe: reads the environment only. Fails: with
// a sentence, for an environment that contradicts itself.
#ifndef TOOLS_LAUNCHED_LAUNCHED_H
#define TOOLS_LAUNCHED_LAUNCHED_H

#include <netinet/in.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/base/error.h"

namespace neuron::tools {

struct Launched {
  std::string launcher;  // "Open MPI", "MPICH", "Slurm"
  uint32_t process = 0;
  uint32_t processes = 1;
  uint32_t nodes = 1;
  std::string job;  // the same text in all processes of the job, of no other one; may be empty
  std::string first_node;  // a name or an address; empty: the launcher does not tell
};

// Returns a variable's value, or null.
using Variables = std::function<const char*(const char*)>;

// Empty: no launcher has started this process, or it is the only one.
runtime::Result<std::optional<Launched>> read_launched(const Variables& variables);

// The first host of a list of Slurm, such as "node[3-5,9]" or "a,b".
std::string first_of_node_list(const std::string& list);

// ADDRESS:PORT of rank 0: of the job's first node, with a port that follows from the job's name, so
// that all processes find it without being told. Fails: where only the user knows the first node.
runtime::Result<std::string> root_of(const Launched& launched);

// Where the processes of a job meet: the port behind that of the root, ADDRESS:PORT of an IPv4
// address. Empty: the text is no such address, or there is no port behind it.
std::optional<sockaddr_in> address_behind(const std::string& root);
// ADDRESS:PORT, with another port than that of the address.
std::string text_of(const sockaddr_in& address, uint16_t port);

}  // namespace neuron::tools

#endif
