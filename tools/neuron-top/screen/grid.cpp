// SPDX-License-Identifier: Apache-2.0
// The cores: a bar for each, or one character where there are too many.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/neuron-top/screen/parts.h"

namespace neuron::top {
namespace {

constexpr int kLabel = 6;       // "ND15  "
constexpr int kNarrowest = 16;  // a bar with its brackets, number and a gap

size_t most_cores(const View& view) {
  size_t most = 0;
  for (const DeviceRow& row : view.devices) most = std::max(most, row.cores.size());
  return most;
}

int cell_width(const View& view, int width) {
  const int cores = static_cast<int>(std::max<size_t>(1, most_cores(view)));
  return std::min(48, (width - kLabel) / cores);
}

Ink ink_of(const CoreCell& cell) {
  if (!cell.hung_engines.empty()) return Ink::kBad;
  return cell.used ? Ink::kFilled : Ink::kFaint;
}

// One character for a share: the taller or the greater the busier.
std::string heat_of(const CoreCell& cell, bool unicode) {
  if (!cell.hung_engines.empty()) return "!";
  if (!cell.used) return unicode ? "·" : ".";
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (unicode) return kBlocks[std::min(7, static_cast<int>(cell.activity.busy * 8))];
  return std::to_string(std::min(9, static_cast<int>(cell.activity.busy * 10)));
}

int heat_width(const View& view) { return kLabel + static_cast<int>(most_cores(view)) + 2; }

}  // namespace

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f%%", share * 100);
  return text;
}

std::string flops_text(double flops) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2fT", flops / 1e12);
  return text;
}

int grid_lines(const View& view, int width) {
  if (cell_width(view, width) < kNarrowest) return 1 << 20;
  return static_cast<int>(view.devices.size()) + 1;
}

int heat_lines(const View& view, int width) {
  const int each_line = std::max(1, width / heat_width(view));
  return (static_cast<int>(view.devices.size()) + each_line - 1) / each_line;
}

void draw_bar(Canvas& canvas, int x, int y, int width, double filled, double more, bool unicode) {
  (void)unicode;
  // A small share is shown, too.
  const auto columns = [&](double share) {
    return std::max(share > 0 ? 1 : 0, static_cast<int>(std::lround(share * width)));
  };
  const int first = columns(filled);
  const int second = std::max(columns(filled + more), first + (more > 0 ? 1 : 0));
  for (int i = 0; i < width; ++i) {
    if (i < first) {
      canvas.put(x + i, y, U'|', Ink::kFilled);
    } else if (i < second) {
      // A different character as well, because not everybody sees colours.
      canvas.put(x + i, y, U'+', Ink::kSystem);
    } else {
      canvas.put(x + i, y, U'.', Ink::kEmpty);
    }
  }
}

void draw_grid(Canvas& canvas, const View& view, int y, bool unicode) {
  const int width = cell_width(view, canvas.width());
  for (size_t core = 0; core < most_cores(view); ++core) {
    canvas.put(kLabel + static_cast<int>(core) * width, y, "NC" + std::to_string(core), Ink::kFaint,
               width - 1);
  }
  for (const DeviceRow& device : view.devices) {
    ++y;
    canvas.put(0, y, "ND" + std::to_string(device.device),
               device.badge.empty() ? (device.selected ? Ink::kActive : Ink::kHeading) : Ink::kBad);
    int x = kLabel;
    for (const CoreCell& cell : device.cores) {
      const std::string number =
          "[" + (view.flops ? flops_text(cell.activity.flops) : percent_text(cell.activity.busy)) +
          "]";
      const int bar = std::max(1, width - static_cast<int>(number.size()) - 2);
      if (cell.hung_engines.empty()) {
        draw_bar(canvas, x, y, bar, std::min(1.0, cell.activity.busy), 0, unicode);
      } else {
        canvas.put(x, y, "HUNG " + cell.hung_engines.front(), Ink::kBad, bar);
      }
      canvas.put(x + bar, y, number, ink_of(cell), width - bar - 1);
      x += width;
    }
    if (!device.badge.empty()) canvas.put(x, y, device.badge, Ink::kBad);
  }
}

void draw_heat(Canvas& canvas, const View& view, int y, int lines, bool unicode) {
  const int each = heat_width(view);
  const int each_line = std::max(1, canvas.width() / each);
  for (size_t i = 0; i < view.devices.size(); ++i) {
    const int line = static_cast<int>(i) / each_line;
    if (line >= lines) return;
    const DeviceRow& device = view.devices[i];
    int x = static_cast<int>(i) % each_line * each;
    canvas.put(x, y + line, "ND" + std::to_string(device.device),
               !device.badge.empty() ? Ink::kBad
               : device.selected     ? Ink::kActive
                                     : Ink::kHeading);
    x += kLabel - 1;
    for (const CoreCell& cell : device.cores) {
      x = canvas.put(x, y + line, heat_of(cell, unicode), ink_of(cell));
    }
  }
}

}  // namespace neuron::top
