// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/pod.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "driver/emulator/service/error.h"

namespace neuron::service {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNotSupported = 524;  // ENOTSUPP of the kernel, which user space does not have
constexpr std::chrono::milliseconds kBetweenQuestions{50};
constexpr unsigned kWhole = 4;  // nodes that mode X4 joins

void put_id(uint64_t serial, __u8 (&id)[256]) {
  std::memset(id, 0, sizeof(id));
  std::memcpy(id, &serial, sizeof(serial));
}

}  // namespace

Pod::~Pod() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

int Pod::join(PodWiring wiring, std::chrono::milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  wiring_ = std::move(wiring);
  return elect(timeout);
}

// With mutex_ held, as all that follows. A thread that still asks for an earlier election goes on
// with this one: nobody waits here for the node that it asks.
int Pod::elect(std::chrono::milliseconds timeout) {
  serials_.assign(wiring_.nodes, std::nullopt);
  serials_[wiring_.node] = wiring_.serial;
  mode_ = NEURON_ULTRASERVER_MODE_UNSET;
  setters_.clear();
  ++election_;
  end_ = Clock::now() + timeout;
  state_ = NEURON_POD_E_STATE_IN_PROGRESS;
  changed_.notify_all();
  if (running_) return 0;
  if (thread_.joinable()) thread_.join();  // it has ended but for its last instructions
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::exception& failure) {  // std::system_error or std::bad_alloc
    state_ = NEURON_POD_E_STATE_FAILED;
    return fail(-ENOMEM,
                "the election of the UltraServer has failed: the host gives node %u no thread for "
                "it (%s); lift the daemon's limit of threads (ulimit -u, TasksMax= of its unit) "
                "and ask for another election",
                wiring_.node, failure.what());
  }
  running_ = true;
  return 0;
}

bool Pod::is_over(uint64_t election) const {
  return stopping_ || election != election_ || state_ != NEURON_POD_E_STATE_IN_PROGRESS;
}

void Pod::run() {
  std::unique_lock lock(mutex_);
  while (!is_over(election_)) {  // bounded: by `end_`, or by the destructor
    const uint64_t election = election_;
    bool complete = false;
    std::string missing;
    try {
      complete = ask_all(lock, election, missing);
    } catch (const std::exception&) {
      // Out of memory: as if nobody had answered.
      if (!lock.owns_lock()) lock.lock();
    }
    if (is_over(election)) continue;
    if (complete) {
      state_ = NEURON_POD_E_STATE_ULTRASERVER;
    } else if (Clock::now() >= end_) {
      state_ = NEURON_POD_E_STATE_FAILED;
      report_failure(lock, missing);
    } else {
      changed_.wait_until(lock, std::min(end_, Clock::now() + kBetweenQuestions),
                          [&] { return is_over(election); });
    }
  }
  running_ = false;
}

// Whether every node has answered; mutex_ is free while one is asked.
bool Pod::ask_all(std::unique_lock<std::mutex>& lock, uint64_t election, std::string& missing) {
  for (unsigned node = 0; node < wiring_.nodes; ++node) {
    if (serials_[node]) continue;
    lock.unlock();
    const auto serial = wiring_.ask(node);
    lock.lock();
    if (is_over(election)) return false;
    const auto twin = std::find(serials_.begin(), serials_.end(), serial);
    if (serial && twin == serials_.end()) {
      serials_[node] = serial;
      continue;
    }
    missing += (missing.empty() ? "" : ", ") + std::to_string(node);
    // Numbers are drawn from 2^64: somebody repeats what another node says.
    if (serial) {
      missing += " (it has the serial number of node " + std::to_string(twin - serials_.begin()) +
                 ", which is believed of one alone)";
    }
  }
  return missing.empty();
}

void Pod::report_failure(std::unique_lock<std::mutex>& lock, const std::string& missing) {
  if (!wiring_.report) return;
  lock.unlock();
  try {
    wiring_.report("the election of the UltraServer has failed: of its " +
                   std::to_string(wiring_.nodes) + " nodes these did not answer node " +
                   std::to_string(wiring_.node) + ": " + missing);
  } catch (const std::exception&) {
    // Out of memory for the sentence: the state tells.
  }
  lock.lock();
}

uint32_t Pod::supported() const {
  uint32_t modes = 1u << NEURON_ULTRASERVER_MODE_X1;
  if (state_ != NEURON_POD_E_STATE_ULTRASERVER) return modes;
  if (wiring_.nodes == kWhole) modes |= 1u << NEURON_ULTRASERVER_MODE_X4;
  // A switch has no left-hand and right-hand links.
  if (wiring_.nodes % 2 == 0 && wiring_.type == NEURON_POD_TYPE_P2P) {
    modes |= 1u << NEURON_ULTRASERVER_MODE_X2V;
  }
  return modes;
}

Pod::View Pod::view() const {
  View view;
  view.state = state_;
  if (mode_ == NEURON_ULTRASERVER_MODE_X1) {
    view.state = NEURON_POD_E_STATE_SINGLE_NODE;
    return view;
  }
  if (state_ != NEURON_POD_E_STATE_ULTRASERVER) return view;
  const bool halves = mode_ == NEURON_ULTRASERVER_MODE_X2V;
  const unsigned first = halves ? wiring_.node / 2 * 2 : 0;
  view.nodes = halves ? 2 : wiring_.nodes;
  view.node = static_cast<int>(wiring_.node - first);
  view.id = *serials_[first];
  return view;
}

bool Pod::electing() const {
  const std::lock_guard lock(mutex_);
  return state_ == NEURON_POD_E_STATE_IN_PROGRESS;
}

PodAttributes Pod::attributes() const {
  const std::lock_guard lock(mutex_);
  PodAttributes tell;
  if (wiring_.nodes == 0) return tell;
  tell.electing = state_ == NEURON_POD_E_STATE_IN_PROGRESS;
  tell.modes = supported();
  if (tell.modes & 1u << NEURON_ULTRASERVER_MODE_X4) {
    tell.node_of_4 = static_cast<int>(wiring_.node);
    tell.server_of_4 = *serials_[0];
  }
  if (tell.modes & 1u << NEURON_ULTRASERVER_MODE_X2V) {
    tell.node_of_2 = static_cast<int>(wiring_.node % 2);
    tell.server_of_2 = *serials_[wiring_.node / 2 * 2];
  }
  return tell;
}

void Pod::info(neuron_ioctl_pod_info& info) const {
  const std::lock_guard lock(mutex_);
  const View now = view();
  info.pod_type = wiring_.nodes != 0 ? wiring_.type : uint8_t{NEURON_POD_TYPE_NONE};
  info.pod_sz = static_cast<__u8>(now.nodes);
  put_id(now.id, info.pod_id);
}

int Pod::status(neuron_ioctl_pod_status_v2& status) const {
  const std::lock_guard lock(mutex_);
  const View now = view();
  status.v1.pod_type = wiring_.nodes != 0 ? wiring_.type : uint8_t{NEURON_POD_TYPE_NONE};
  status.v1.pod_sz = static_cast<__u8>(now.nodes);
  status.v1.state = now.state;
  status.v1.node_id = static_cast<__s8>(now.node);
  put_id(now.id, status.v1.pod_id);
  status.mode = mode_;
  status.modes_supported = supported();
  if (now.state != NEURON_POD_E_STATE_IN_PROGRESS) return 0;
  return fail(-EBUSY, "node %u of an UltraServer of %u is electing", wiring_.node, wiring_.nodes);
}

std::string Pod::setters() const {
  constexpr size_t kMost = 3;
  std::string pids;
  size_t told = 0;
  for (const auto& [session, pid] : setters_) {
    if (told++ == kMost) return pids + " and others";
    pids += (pids.empty() ? "pid " : ", pid ") + std::to_string(pid);
  }
  return pids;
}

int Pod::set_mode(uint32_t mode, const PodCaller& caller) {
  if (state_ == NEURON_POD_E_STATE_IN_PROGRESS) {
    return fail(-EBUSY, "the UltraServer takes no mode during an election");
  }
  if (mode_ != NEURON_ULTRASERVER_MODE_UNSET && mode_ != mode) {
    if (caller.marked) {
      return fail(-EEXIST,
                  "the UltraServer is in mode %u; it takes mode %u when no core of this node is "
                  "marked any more",
                  mode_, mode);
    }
    return fail(-EEXIST,
                "the UltraServer is in mode %u, and no core of this node is marked; it takes mode "
                "%u when the device has been closed that the mode was set through (%s)",
                mode_, mode, setters().c_str());
  }
  if (mode > NEURON_ULTRASERVER_MODE_X1 || ((supported() >> mode) & 1) == 0) {
    return fail(-kNotSupported, "the UltraServer has no mode %u, its modes are the bits of 0x%x",
                mode, supported());
  }
  setters_[caller.session] = caller.pid;
  mode_ = mode;
  return 0;
}

int Pod::control(neuron_ioctl_pod_ctrl& request, uint32_t mode, const PodCaller& caller) {
  const std::lock_guard lock(mutex_);
  int error = 0;
  // A host on its own has nothing to steer.
  if (wiring_.nodes != 0) {
    switch (request.ctrl) {
      case NEURON_NPE_POD_CTRL_REQ_POD:
        error = caller.marked ? fail(-EAGAIN, "no election while cores of this node are marked")
                              : elect(request.timeout != 0 ? std::chrono::seconds(request.timeout)
                                                           : kTimeout);
        break;
      case NEURON_NPE_POD_CTRL_REQ_SINGLE_NODE:
        error = set_mode(NEURON_ULTRASERVER_MODE_X1, caller);
        break;
      case NEURON_NPE_POD_CTRL_REQ_KILL:
        if (state_ == NEURON_POD_E_STATE_IN_PROGRESS) state_ = NEURON_POD_E_STATE_NOT_STARTED;
        changed_.notify_all();
        break;
      case NEURON_NPE_POD_CTRL_SET_MODE:
        error = set_mode(mode, caller);
        break;
      default:
        error = fail(-EINVAL, "POD_CTRL %u is unknown, there are 0 to 3", request.ctrl);
    }
  }
  request.state = view().state;
  return error;
}

void Pod::clear_mode() {
  const std::lock_guard lock(mutex_);
  mode_ = NEURON_ULTRASERVER_MODE_UNSET;
  setters_.clear();
}

void Pod::forget(uint64_t session, bool marked) {
  const std::lock_guard lock(mutex_);
  if (setters_.erase(session) != 0 && setters_.empty() && !marked) {
    mode_ = NEURON_ULTRASERVER_MODE_UNSET;
  }
}

}  // namespace neuron::service
