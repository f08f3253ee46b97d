// SPDX-License-Identifier: Apache-2.0
#include "tools/launched/launched.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <span>

#include "driver/base/sha256.h"

namespace neuron::tools {

using runtime::fail;
using runtime::format;
using runtime::Result;

namespace {

// The variables of one launcher. Sources: Open MPI's FAQ on its environment, MPICH's hydra (PMI-1),
// srun(1) "OUTPUT ENVIRONMENT VARIABLES". A batch script of Slurm is no step and has no
// SLURM_STEP_NUM_TASKS.
struct Launcher {
  const char* name;
  const char* process;
  const char* processes;
  const char* of_node;    // processes on this node; null: `nodes` is told
  const char* nodes;      // null: from of_node
  const char* node_list;  // null: not told
  const char* job[2];     // together they name the job
};
// mpirun inside an allocation of Slurm has the variables of both: the nearer one comes first.
constexpr Launcher kLaunchers[] = {
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     nullptr,
     nullptr,
     {"PMIX_NAMESPACE", nullptr}},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", nullptr, nullptr, {nullptr, nullptr}},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     nullptr,
     "SLURM_STEP_NUM_NODES",
     "SLURM_STEP_NODELIST",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};
constexpr uint32_t kMostProcesses = 1u << 20;

Result<uint32_t> number(const Launcher& launcher, const char* name, const char* text) {
  uint32_t value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end || value > kMostProcesses) {
    return fail(NRT_INVALID, "{} has set {}={}, expected a number", launcher.name, name, text);
  }
  return value;
}

}  // namespace

Result<std::optional<Launched>> read_launched(const Variables& variables) {
  for (const Launcher& launcher : kLaunchers) {
    const char* const process = variables(launcher.process);
    const char* const processes = variables(launcher.processes);
    if (process == nullptr || processes == nullptr) continue;
    Launched found;
    found.launcher = launcher.name;
    NEURON_TRY(own, number(launcher, launcher.process, process));
    NEURON_TRY(all, number(launcher, launcher.processes, processes));
    found.process = own;
    found.processes = all;
    if (all < 2) return std::optional<Launched>();
    if (own >= all) {
      return fail(NRT_INVALID, "{} has set {}={} and {}={}: there is no such process",
                  launcher.name, launcher.process, process, launcher.processes, processes);
    }
    if (const char* nodes = launcher.nodes == nullptr ? nullptr : variables(launcher.nodes)) {
      NEURON_TRY(count, number(launcher, launcher.nodes, nodes));
      found.nodes = std::max(1u, count);
    } else if (const char* local =
                   launcher.of_node == nullptr ? nullptr : variables(launcher.of_node)) {
      NEURON_TRY(count, number(launcher, launcher.of_node, local));
      if (count == 0 || all % count != 0) {
        return fail(NRT_INVALID,
                    "{} has {} processes, {} of them on this node; start as many on each node",
                    launcher.name, all, count);
      }
      found.nodes = all / count;
    }
    for (const char* part : launcher.job) {
      const char* const text = part == nullptr ? nullptr : variables(part);
      if (text != nullptr) found.job += format("{}/", text);
    }
    if (const char* list =
            launcher.node_list == nullptr ? nullptr : variables(launcher.node_list)) {
      found.first_node = first_of_node_list(list);
    }
    return std::optional<Launched>(std::move(found));
  }
  return std::optional<Launched>();
}

std::string first_of_node_list(const std::string& list) {
  const size_t open = list.find_first_of("[,");
  if (open == std::string::npos || list[open] == ',') return list.substr(0, open);
  const size_t close = list.find(']', open);
  const size_t end = list.find_first_of("-,]", open + 1);
  if (close == std::string::npos || end == std::string::npos) return "";
  const size_t next = std::min(list.find(',', close), list.size());
  return list.substr(0, open) + list.substr(open + 1, end - open - 1) +
         list.substr(close + 1, next - close - 1);
}

Result<std::string> root_of(const Launched& launched) {
  constexpr uint32_t kFirstPort = 20000, kPorts = 12000;  // below the ports that Linux gives out
  const std::string key = launched.launcher + "/" + launched.job;
  const auto digest =
      base::Sha256::of(std::span(reinterpret_cast<const uint8_t*>(key.data()), key.size()));
  // The next port is that of the program itself.
  const uint32_t port = kFirstPort + (digest[0] * 256u + digest[1]) % (kPorts / 2) * 2;
  if (launched.nodes == 1) return format("127.0.0.1:{}", port);
  if (launched.first_node.empty()) {
    return fail(NRT_INVALID,
                "{} has started processes on {} nodes and does not tell the first one; give all "
                "processes NEURON_RT_ROOT_COMM_ID=ADDRESS:PORT, an address of the node of process "
                "0 and two free ports there (PORT and the next)",
                launched.launcher, launched.nodes);
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(launched.first_node.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return fail(NRT_INVALID,
                "the first node of the job, {}, has no address ({}); give all processes "
                "NEURON_RT_ROOT_COMM_ID=ADDRESS:PORT",
                launched.first_node, gai_strerror(error));
  }
  sockaddr_in address{};
  std::memcpy(&address, found->ai_addr, sizeof address);
  freeaddrinfo(found);
  const std::string text = text_of(address, static_cast<uint16_t>(port));
  // Debian writes the name of a host into its own /etc/hosts with such an address.
  if (ntohl(address.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET) {
    return fail(NRT_INVALID,
                "the first node of the job, {}, is {} here, which the other nodes do not reach; "
                "give all processes NEURON_RT_ROOT_COMM_ID=ADDRESS:PORT",
                launched.first_node, text.substr(0, text.rfind(':')));
  }
  return text;
}

std::optional<sockaddr_in> address_behind(const std::string& root) {
  const size_t colon = root.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  const int port = colon == std::string::npos ? 0 : std::atoi(root.c_str() + colon + 1);
  if (port <= 0 || port >= 65535 ||
      inet_pton(AF_INET, root.substr(0, colon).c_str(), &address.sin_addr) != 1) {
    return std::nullopt;
  }
  address.sin_port = htons(static_cast<uint16_t>(port + 1));
  return address;
}

std::string text_of(const sockaddr_in& address, uint16_t port) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return format("{}:{}", text, port);
}

}  // namespace neuron::tools
