// SPDX-License-Identifier: Apache-2.0
#include "tools/common/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "driver/base/format.h"

namespace neuron::tools {
namespace {

constexpr std::chrono::milliseconds kBetweenDrawings{100};
constexpr size_t kBarWidth = 24;

bool shows_lines(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) != 0 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

std::string amount(const Progress& progress) {
  const auto both = [&](double by, int digits, std::string_view unit) {
    const double done = static_cast<double>(progress.done) / by;
    if (progress.total == 0) return base::format("{:.{}f} {}", done, digits, unit);
    return base::format("{:.{}f} of {:.{}f} {}", done, digits,
                        static_cast<double>(progress.total) / by, digits, unit);
  };
  if (std::string_view(progress.unit) != "B") return both(1, 0, progress.unit);
  const uint64_t largest = std::max(progress.done, progress.total);
  if (largest >= 1'000'000'000) return both(1e9, 1, "GB");
  if (largest >= 1'000'000) return both(1e6, 0, "MB");
  return both(1e3, 0, "kB");
}

std::string time_left(const Progress& progress, double share) {
  if (share <= 0 || share >= 1) return {};
  const auto left = static_cast<double>(progress.total - progress.done);
  const double seconds = std::ceil(progress.seconds * left / static_cast<double>(progress.done));
  if (seconds < 120) return base::format("  {:.0f} s left", seconds);
  return base::format("  {:.0f} min left", std::ceil(seconds / 60));
}

// Cut to the columns of the terminal, so that it stays on one line.
std::string cut(std::string text, size_t columns) {
  while (columns_of(text) > columns) {
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) {
      text.pop_back();
    }
    if (!text.empty()) text.pop_back();
  }
  return text;
}

void write_all(int descriptor, std::string_view text) {
  // A terminal that is gone takes nothing, and nobody misses the line.
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

std::string progress_text(const Style& style, std::string_view what, const Progress& progress) {
  std::string text(what);
  double share = 0;
  if (progress.total != 0) {
    share = std::min(1.0, static_cast<double>(progress.done) / static_cast<double>(progress.total));
    const auto full = static_cast<size_t>(share * kBarWidth);
    text += "  [" + std::string(full, '#') + std::string(kBarWidth - full, '-') + "]";
    text += base::format("  {:.0f} %", std::floor(100 * share));
  }
  text += "  " + amount(progress) + time_left(progress, share);
  return cut(std::move(text), std::max(style.width, 2u) - 1);
}

ProgressBar::ProgressBar(std::string what, const char* unit, int descriptor,
                         std::chrono::milliseconds patience)
    : what_(printable(what)),
      unit_(unit),
      descriptor_(descriptor),
      terminal_(shows_lines(descriptor)),
      next_(begin_ + patience) {}

ProgressBar::~ProgressBar() {
  if (drawn_) write_all(descriptor_, "\r\033[K");
}

void ProgressBar::show(uint64_t done, uint64_t total) {
  if (!terminal_) return;
  const Clock::time_point now = Clock::now();
  if (done < done_) begin_ = now;
  done_ = done;
  if (now < next_) return;
  next_ = now + kBetweenDrawings;
  drawn_ = true;
  const std::chrono::duration<double> took = now - begin_;
  const Progress progress{.done = done, .total = total, .unit = unit_, .seconds = took.count()};
  const Style style{.color = false, .unicode = false, .width = columns_of_terminal(descriptor_)};
  write_all(descriptor_, "\r" + progress_text(style, what_, progress) + "\033[K");
}

}  // namespace neuron::tools
