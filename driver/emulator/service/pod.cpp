// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/pod.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
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
  std::unique_lock lock(mutex_);
  stop(lock);
}

void Pod::join(PodWiring wiring, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  wiring_ = std::move(wiring);
  elect(lock, timeout);
}

// A thread that has ended on its own is joined, too.
void Pod::stop(std::unique_lock<std::mutex>& lock) {
  stopping_ = true;
  changed_.notify_all();
  std::thread ending = std::move(thread_);
  lock.unlock();
  if (ending.joinable()) ending.join();
  lock.lock();
  stopping_ = false;
}

void Pod::elect(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout) {
  stop(lock);
  serials_.assign(wiring_.nodes, std::nullopt);
  serials_[wiring_.node] = wiring_.serial;
  mode_ = NEURON_ULTRASERVER_MODE_UNSET;
  state_ = NEURON_POD_E_STATE_IN_PROGRESS;
  thread_ = std::thread([this, end = Clock::now() + timeout] { run(end); });
}

void Pod::run(Clock::time_point end) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::string missing;
    for (unsigned node = 0; node < wiring_.nodes && !stopping_; ++node) {
      if (serials_[node]) continue;
      lock.unlock();
      const auto serial = wiring_.ask(node);
      lock.lock();
      serials_[node] = serial;
      if (!serial) missing += (missing.empty() ? "" : ", ") + std::to_string(node);
    }
    if (stopping_) return;
    if (missing.empty()) {
      state_ = NEURON_POD_E_STATE_ULTRASERVER;
      return;
    }
    if (Clock::now() >= end) {
      state_ = NEURON_POD_E_STATE_FAILED;
      lock.unlock();
      if (wiring_.report) {
        wiring_.report("the election of the UltraServer has failed: of its " +
                       std::to_string(wiring_.nodes) + " nodes these did not answer node " +
                       std::to_string(wiring_.node) + ": " + missing);
      }
      return;
    }
    changed_.wait_until(lock, std::min(end, Clock::now() + kBetweenQuestions),
                        [this] { return stopping_; });
  }
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

void Pod::info(neuron_ioctl_pod_info& info) const {
  const std::lock_guard lock(mutex_);
  const View now = view();
  info.pod_type = wiring_.nodes != 0 ? wiring_.type : NEURON_POD_TYPE_NONE;
  info.pod_sz = static_cast<__u8>(now.nodes);
  put_id(now.id, info.pod_id);
}

int Pod::status(neuron_ioctl_pod_status_v2& status) const {
  const std::lock_guard lock(mutex_);
  const View now = view();
  status.v1.pod_type = wiring_.nodes != 0 ? wiring_.type : NEURON_POD_TYPE_NONE;
  status.v1.pod_sz = static_cast<__u8>(now.nodes);
  status.v1.state = now.state;
  status.v1.node_id = static_cast<__s8>(now.node);
  put_id(now.id, status.v1.pod_id);
  status.mode = mode_;
  status.modes_supported = supported();
  if (now.state != NEURON_POD_E_STATE_IN_PROGRESS) return 0;
  return fail(-EBUSY, "node %u of an UltraServer of %u is electing", wiring_.node, wiring_.nodes);
}

int Pod::set_mode(uint32_t mode) {
  if (state_ == NEURON_POD_E_STATE_IN_PROGRESS) {
    return fail(-EBUSY, "the UltraServer takes no mode during an election");
  }
  if (mode_ != NEURON_ULTRASERVER_MODE_UNSET && mode_ != mode) {
    return fail(-EEXIST,
                "the UltraServer is in mode %u; it takes mode %u when no core of this node is "
                "marked any more",
                mode_, mode);
  }
  if (mode > NEURON_ULTRASERVER_MODE_X1 || ((supported() >> mode) & 1) == 0) {
    return fail(-kNotSupported, "the UltraServer has no mode %u, its modes are the bits of 0x%x",
                mode, supported());
  }
  mode_ = mode;
  return 0;
}

int Pod::control(neuron_ioctl_pod_ctrl& request, uint32_t mode, bool marked) {
  const std::lock_guard steering(steering_);
  std::unique_lock lock(mutex_);
  int error = 0;
  // A host on its own has nothing to steer.
  if (wiring_.nodes != 0) {
    switch (request.ctrl) {
      case NEURON_NPE_POD_CTRL_REQ_POD:
        if (marked) {
          error = fail(-EAGAIN, "no election while cores of this node are marked");
        } else {
          elect(lock, request.timeout != 0 ? std::chrono::seconds(request.timeout) : kTimeout);
        }
        break;
      case NEURON_NPE_POD_CTRL_REQ_SINGLE_NODE:
        error = set_mode(NEURON_ULTRASERVER_MODE_X1);
        break;
      case NEURON_NPE_POD_CTRL_REQ_KILL:
        stop(lock);
        if (state_ == NEURON_POD_E_STATE_IN_PROGRESS) state_ = NEURON_POD_E_STATE_NOT_STARTED;
        break;
      case NEURON_NPE_POD_CTRL_SET_MODE:
        error = set_mode(mode);
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
}

}  // namespace neuron::service
