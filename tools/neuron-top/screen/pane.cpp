// SPDX-License-Identifier: Apache-2.0
// The lower pane: memory tree, processes or engines, with a heading and a window on its rows.
#include <algorithm>
#include <cstdio>

#include "tools/neuron-top/screen/parts.h"

namespace neuron::top {
namespace {

constexpr int kNumber = 14;  // a column with a size

std::string fixed(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

void right(Canvas& canvas, int end, int y, const std::string& text, Ink ink) {
  canvas.put(end - static_cast<int>(text.size()), y, text, ink);
}

// The first row to show, so that the selected one is inside.
int first_row(const std::vector<std::string>& keys, const std::string& selected, int room) {
  const auto found = std::find(keys.begin(), keys.end(), selected);
  const int at = found == keys.end() ? 0 : static_cast<int>(found - keys.begin());
  const int last = std::max(0, static_cast<int>(keys.size()) - room);
  return std::clamp(at - room / 2, 0, last);
}

void draw_tree_row(Canvas& canvas, const TreeRow& row, int y, int width) {
  const Ink ink = row.selected ? Ink::kSelected : row.dimmed ? Ink::kFaint : Ink::kPlain;
  int x = static_cast<int>(row.depth) * 3;
  x = canvas.put(x, y, row.branch ? (row.open ? "[-] " : "[+] ") : "    ", ink);
  const int columns = width >= 60 ? 3 : 2;
  canvas.put(x, y, row.text, ink, std::max(0, width - columns * kNumber - x - 1));
  if (columns == 3) right(canvas, width - 2 * kNumber, y, row.model_id, ink);
  right(canvas, width - kNumber, y, size_text(static_cast<double>(row.device_bytes)), ink);
  right(canvas, width, y, size_text(static_cast<double>(row.host_bytes)), ink);
  if (row.selected) canvas.paint_line(y, Ink::kSelected);
}

struct Columns {
  const char* heading;
  int width;  // negative: to the left
};
constexpr Columns kProcess[] = {{"PID", 8},       {"USER", -9},   {"TAG", -13},  {"CORES", -8},
                                {"UTIL", 9},      {"EXEC/s", 10}, {"ERRORS", 7}, {"DEVICE MEM", 11},
                                {"HOST MEM", 10}, {"CPU", 7}};

void draw_process(Canvas& canvas, const ProcessRow& row, int y, int width) {
  const Ink ink = row.selected ? Ink::kSelected : row.error.empty() ? Ink::kPlain : Ink::kWarning;
  const std::string texts[] = {std::to_string(row.pid),
                               row.user,
                               row.tag,
                               row.cores,
                               percent_text(row.activity.busy),
                               fixed("%.1f", row.activity.executions),
                               std::to_string(row.activity.errors),
                               size_text(static_cast<double>(row.device_bytes)),
                               size_text(static_cast<double>(row.host_bytes)),
                               fixed("%.0f%%", row.processors * 100)};
  int x = 0;
  for (size_t i = 0; i < std::size(kProcess); ++i) {
    const int room = std::abs(kProcess[i].width);
    if (kProcess[i].width < 0) {
      canvas.put(x + 1, y, texts[i], ink, room - 1);
    } else {
      right(canvas, x + room, y, texts[i], ink);
    }
    x += room;
  }
  x = canvas.put(x + 1, y, row.where, Ink::kFaint, std::max(0, width - x - 1));
  canvas.put(x + (row.where.empty() ? 0 : 1), y, row.command, ink, std::max(0, width - x - 1));
  if (row.selected) canvas.paint_line(y, Ink::kSelected);
}

constexpr const char* kEngines[] = {"PE", "ACT", "POOL", "DVE", "SP"};

void draw_engine(Canvas& canvas, const EngineRow& row, int y) {
  const Ink ink = row.selected ? Ink::kSelected : Ink::kPlain;
  canvas.put(0, y, row.text, ink, 12);
  int x = 12;
  for (const double share : row.activity.engines) {
    right(canvas, x += 9, y, percent_text(share), ink);
  }
  right(canvas, x += 9, y, percent_text(row.activity.collectives), ink);
  right(canvas, x += 13, y, size_text(row.activity.dma_bytes) + "/s", ink);
  right(canvas, x += 13, y, size_text(row.activity.link_bytes) + "/s", ink);
  right(canvas, x += 10, y, flops_text(row.activity.flops), ink);
  if (row.selected) canvas.paint_line(y, Ink::kSelected);
}

void draw_heading(Canvas& canvas, const View& view, int y) {
  const int width = canvas.width();
  static constexpr const char* kNames[] = {"Memory Usage Details", "Processes", "Engines"};
  int x = 0;
  for (int pane = 0; pane < 3; ++pane) {
    const bool active = static_cast<int>(view.pane) == pane;
    Area area{x, y, static_cast<int>(std::char_traits<char>::length(kNames[pane])), {}};
    area.target.kind = Target::Kind::kPane;
    area.target.pane = static_cast<Pane>(pane);
    canvas.add_area(area);
    x = canvas.put(x, y, kNames[pane], active ? Ink::kHeading : Ink::kFaint) + 2;
  }
  if (view.pane == Pane::kMemory) {
    if (width >= 60) right(canvas, width - 2 * kNumber, y, "Model ID", Ink::kHeading);
    right(canvas, width - kNumber, y, "Device Memory", Ink::kHeading);
    right(canvas, width, y, "Host Memory", Ink::kHeading);
  } else if (view.pane == Pane::kProcesses) {
    right(canvas, width, y, std::string("sorted by ") + name(view.sort), Ink::kFaint);
  }
}

// Names of columns under the heading; the tree has them beside it.
int draw_columns(Canvas& canvas, const View& view, int y) {
  if (view.pane == Pane::kMemory) return 0;
  int x = 0;
  if (view.pane == Pane::kProcesses) {
    for (const Columns& column : kProcess) {
      const int room = std::abs(column.width);
      if (column.width < 0) {
        canvas.put(x + 1, y, column.heading, Ink::kFaint);
      } else {
        right(canvas, x + room, y, column.heading, Ink::kFaint);
      }
      x += room;
    }
    canvas.put(x + 1, y, "CONTAINER, COMMAND", Ink::kFaint);
  } else {
    x = 12;
    for (const char* engine : kEngines) right(canvas, x += 9, y, engine, Ink::kFaint);
    right(canvas, x += 9, y, "CC", Ink::kFaint);
    right(canvas, x += 13, y, "DMA", Ink::kFaint);
    right(canvas, x += 13, y, "LINKS", Ink::kFaint);
    right(canvas, x += 10, y, "FLOPS", Ink::kFaint);
  }
  return 1;
}

template <typename Row>
std::string selected_key(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    if (row.selected) return row.key;
  }
  return {};
}

}  // namespace

void draw_pane(Canvas& canvas, const View& view, int y, int lines) {
  if (lines <= 0) return;
  draw_heading(canvas, view, y);
  const int columns = lines > 2 ? draw_columns(canvas, view, y + 1) : 0;
  const int room = lines - 1 - columns;
  y += 1 + columns;
  const std::string selected = view.pane == Pane::kMemory      ? selected_key(view.tree)
                               : view.pane == Pane::kProcesses ? selected_key(view.processes)
                                                               : selected_key(view.engines);
  const std::vector<std::string> keys = row_keys(view);
  const int first = first_row(keys, selected, room);
  for (int i = 0; i < room && first + i < static_cast<int>(keys.size()); ++i) {
    const size_t at = static_cast<size_t>(first + i);
    if (view.pane == Pane::kMemory) {
      draw_tree_row(canvas, view.tree[at], y + i, canvas.width());
    } else if (view.pane == Pane::kProcesses) {
      draw_process(canvas, view.processes[at], y + i, canvas.width());
    } else {
      draw_engine(canvas, view.engines[at], y + i);
    }
    Area area{0, y + i, canvas.width(), {}};
    area.target.row = keys[at];
    canvas.add_area(area);
  }
}

}  // namespace neuron::top
