// SPDX-License-Identifier: Apache-2.0
// The UltraServer ("pod") that an instance is a node of: election, node numbers, modes.
//
// Concepts: the nodes of a pod are instances of other daemons, or of this one, wired in a fixed
// order. In an election a node asks every other one until all have answered or the time is over;
// then it has its number, and the pod has the serial number of node 0. A mode makes smaller pods of
// it: X2V pairs nodes 0 with 1 and 2 with 3, X1 leaves each node on its own. It ends with the last
// mark of a core, with the next election, and, while no core is marked, with the last of the
// sessions that have set it. Not done: pairs when a node is missing, and X2H, which only pods of
// two have. Chips of different nodes reach each other's memory if the nodes are those of one
// process (joined). Callers: the calls of a session, any thread; join() comes before the first
// session. Locks: who needs the marks holds the lock of the claims before it calls; this takes its
// own behind it, and waits for nothing under it. Owns: the thread of elections, which ends with the
// last one. Fails: negative errno and a sentence.
#ifndef DRIVER_EMULATOR_SERVICE_POD_H
#define DRIVER_EMULATOR_SERVICE_POD_H

#include <uapi/neuron_ioctl.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace neuron::service {

// How an instance is wired to the other nodes of its pod.
struct PodWiring {
  uint8_t type = NEURON_POD_TYPE_P2P;
  unsigned nodes = 0;  // 0: it is on its own
  unsigned node = 0;
  uint64_t serial = 0;
  bool joined = false;  // the chips of all nodes reach each other
  // The serial number of another node; empty: it does not answer now. Takes at most a second.
  // Called by the thread of the election alone.
  std::function<std::optional<uint64_t>(unsigned node)> ask;
  // Called when an election ends without some nodes.
  std::function<void(const std::string& sentence)> report;
};

// The session that steers an UltraServer.
struct PodCaller {
  uint64_t session = 0;
  int32_t pid = 0;
  bool marked = false;  // whether a core of the instance is, by whomever
};

// What the class attributes of a driver tell of an UltraServer, whichever mode is set: the place of
// this node in the UltraServers of two and of four nodes that it may become, -1 if there is none.
struct PodAttributes {
  bool electing = false;
  int node_of_2 = -1;
  int node_of_4 = -1;
  uint64_t server_of_2 = 0;
  uint64_t server_of_4 = 0;
  uint32_t modes = 0;  // bits; 0: the instance is on its own
};

class Pod {
 public:
  static constexpr std::chrono::seconds kTimeout{600};

  Pod() = default;
  ~Pod();
  Pod(const Pod&) = delete;
  Pod& operator=(const Pod&) = delete;

  // Begins the first election. -ENOMEM where the host gives no thread for it.
  int join(PodWiring wiring, std::chrono::milliseconds timeout = kTimeout);

  // Nodes whose chips this one's reach, with itself. Any thread, after join().
  unsigned joined_nodes() const { return wiring_.joined ? wiring_.nodes : 1; }
  bool electing() const;
  PodAttributes attributes() const;

  void info(neuron_ioctl_pod_info& info) const;
  // Also v1 of it. -EBUSY while an election runs, with all fields filled in.
  int status(neuron_ioctl_pod_status_v2& status) const;
  // `mode` of SET_MODE. The caller holds the lock of the claims, so that no core is marked between
  // the decision and what follows from it. -ENOMEM where the host gives no thread for an election,
  // which has failed then.
  int control(neuron_ioctl_pod_ctrl& request, uint32_t mode, const PodCaller& caller);
  // The last mark of a core is gone. With the lock of the claims.
  void clear_mode();
  // A session has ended; `marked`: whether a core still is. With the lock of the claims.
  void forget(uint64_t session, bool marked);

 private:
  // What this node is in the mode that is set.
  struct View {
    uint32_t state = NEURON_POD_E_STATE_SINGLE_NODE;
    unsigned nodes = 0;
    int node = -1;
    uint64_t id = 0;
  };

  View view() const;
  uint32_t supported() const;
  int set_mode(uint32_t mode, const PodCaller& caller);
  std::string setters() const;
  int elect(std::chrono::milliseconds timeout);
  bool is_over(uint64_t election) const;
  void run();
  bool ask_all(std::unique_lock<std::mutex>& lock, uint64_t election, std::string& missing);
  void report_failure(std::unique_lock<std::mutex>& lock, const std::string& missing);

  PodWiring wiring_;  // never changes after join()
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t state_ = NEURON_POD_E_STATE_SINGLE_NODE;
  uint32_t mode_ = NEURON_ULTRASERVER_MODE_UNSET;
  std::map<uint64_t, int32_t> setters_;           // of the mode, sessions that live: their pids
  std::vector<std::optional<uint64_t>> serials_;  // by node
  uint64_t election_ = 0;  // the newest; what is heard for an earlier one does not count
  std::chrono::steady_clock::time_point end_;  // of that one
  bool stopping_ = false;
  bool running_ = false;  // whether the thread looks at state_ once more
  std::thread thread_;
};

}  // namespace neuron::service

#endif
