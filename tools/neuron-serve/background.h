// SPDX-License-Identifier: Apache-2.0
//
// A thread for what would take the network thread too long: long texts in JSON.
// Callers: the network thread. Owns: the thread, which ends with the object, behind what was given
// to it. Work is done in the order in which it came. Fails: does not.
#ifndef TOOLS_NEURON_SERVE_BACKGROUND_H
#define TOOLS_NEURON_SERVE_BACKGROUND_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace neuron::serve {

class Background {
 public:
  Background();
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void run(std::function<void()> work);

 private:
  void serve();

  std::mutex mutex_;  // the next two
  std::deque<std::function<void()>> waiting_;
  bool end_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace neuron::serve

#endif
