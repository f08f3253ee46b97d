// SPDX-License-Identifier: Apache-2.0
//
// How far something is that takes more than a second, on the last line of a terminal.
//
// Callers: programs, one thread an object. Borrows the descriptor. Cannot fail: where the
// descriptor is no terminal, or TERM is dumb, nothing is written. The line goes away with the
// object, so what a program prints is the same with and without it; it prints nothing else
// meanwhile.
#ifndef TOOLS_COMMON_PROGRESS_BAR_H
#define TOOLS_COMMON_PROGRESS_BAR_H

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/common/terminal.h"

namespace neuron::tools {

struct Progress {
  uint64_t done = 0;
  uint64_t total = 0;      // 0: nobody knows
  const char* unit = "B";  // "B" is printed as kB, MB and GB; others behind the number
  double seconds = 0;      // since it began
};

// One line: "reading p.ntff  [#######-----]  58 %  1.2 of 2.1 GB  3 s left".
std::string progress_text(const Style& style, std::string_view what, const Progress& progress);

class ProgressBar {
 public:
  using Clock = std::chrono::steady_clock;
  // `what`: a verb and its object. `patience`: how long nothing is shown.
  explicit ProgressBar(std::string what, const char* unit = "B", int descriptor = STDERR_FILENO,
                       std::chrono::milliseconds patience = std::chrono::seconds(1));
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // May be called as often as is convenient: it draws ten times a second. What goes back begins
  // anew, and so does the time that is left.
  void show(uint64_t done, uint64_t total);

 private:
  const std::string what_;
  const char* const unit_;
  const int descriptor_;
  const bool terminal_;
  Clock::time_point begin_ = Clock::now();
  uint64_t done_ = 0;
  Clock::time_point next_;
  bool drawn_ = false;
};

}  // namespace neuron::tools

#endif
