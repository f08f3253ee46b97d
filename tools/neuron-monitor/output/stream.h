// SPDX-License-Identifier: Apache-2.0
//
// Writes reports to standard output. A slow reader holds up the thread of the stream, never the
// loop that measures and never an exporter.
// Callers: the monitor's loop; thread-safe. Owns: a thread and at most kMostBytes of text. Borrows:
// the file descriptor, whose SIGPIPE the caller has switched off.
// Fails: failure() is the errno of the write after which nothing more is written.
#ifndef TOOLS_NEURON_MONITOR_OUTPUT_STREAM_H
#define TOOLS_NEURON_MONITOR_OUTPUT_STREAM_H

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

namespace neuron::monitor {

class Stream {
 public:
  static constexpr size_t kMostBytes = 1 << 20;

  explicit Stream(int descriptor);
  // Drops text that is not yet written; interrupts a write that a reader holds up.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // False: there is no room, and nothing was taken.
  bool push(std::string report);
  // True if there is room before the time is over.
  bool wait_for_room(std::chrono::milliseconds patience);
  // True if everything was written before the time is over.
  bool finish(std::chrono::milliseconds patience);
  int failure() const;

 private:
  void run();
  int write_all(const std::string& text);

  const int descriptor_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> queue_;
  size_t bytes_ = 0;  // of the queue and of what is being written
  int failure_ = 0;
  bool ending_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace neuron::monitor

#endif
