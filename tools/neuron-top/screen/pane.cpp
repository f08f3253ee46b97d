// SPDX-License-Identifier: Apache-2.0
// The lower pane: memory tree, processes or engines, with a heading and a window on its rows.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <type_traits>

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

struct Column {
  const char* heading;
  int width;    // negative: to the left
  int dropped;  // the larger, the sooner it gives way on a narrow screen; 0: never
};
constexpr Column kProcess[] = {
    {"PID", 8, 0},     {"USER", -9, 3},  {"TAG", -13, 6},       {"CORES", -8, 0},    {"UTIL", 9, 0},
    {"EXEC/s", 10, 0}, {"ERRORS", 7, 2}, {"DEVICE MEM", 11, 1}, {"HOST MEM", 10, 4}, {"CPU", 7, 5}};
constexpr int kCommandRoom = 18;  // kept for a process's command

constexpr Column kEngine[] = {{"", -12, 0},     {"PE", 9, 0},    {"ACT", 9, 0}, {"POOL", 9, 0},
                              {"DVE", 9, 0},    {"SP", 9, 0},    {"CC", 9, 0},  {"DMA", 13, 1},
                              {"LINKS", 13, 3}, {"FLOPS", 10, 2}};

// Which columns fit into `width`: bit i for column i. No column is cut: whole ones give way.
template <size_t N>
unsigned fitting(const Column (&columns)[N], int width) {
  unsigned shown = (1U << N) - 1;
  int total = 0;
  for (const Column& column : columns) total += std::abs(column.width);
  while (total > width) {
    size_t worst = N;
    for (size_t i = 0; i < N; ++i) {
      if ((shown >> i & 1) == 0 || columns[i].dropped == 0) continue;
      if (worst == N || columns[i].dropped > columns[worst].dropped) worst = i;
    }
    if (worst == N) break;
    shown &= ~(1U << worst);
    total -= std::abs(columns[worst].width);
  }
  return shown;
}

// Draws one text for each column that is shown; returns the column behind them.
template <size_t N>
int draw_columns_of(Canvas& canvas, const Column (&columns)[N], unsigned shown,
                    const std::string (&texts)[N], int y, Ink ink) {
  int x = 0;
  for (size_t i = 0; i < N; ++i) {
    if ((shown >> i & 1) == 0) continue;
    const int room = std::abs(columns[i].width);
    if (columns[i].width < 0) {
      const int gap = x == 0 ? 0 : 1;
      canvas.put(x + gap, y, texts[i], ink, room - gap);
    } else {
      right(canvas, x + room, y, texts[i], ink);
    }
    x += room;
  }
  return x;
}

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
  int x = draw_columns_of(canvas, kProcess, fitting(kProcess, width - kCommandRoom), texts, y, ink);
  x = canvas.put(x + 1, y, row.where, Ink::kFaint, std::max(0, width - x - 1));
  canvas.put(x + (row.where.empty() ? 0 : 1), y, row.command, ink, std::max(0, width - x - 1));
  if (row.selected) canvas.paint_line(y, Ink::kSelected);
}

void draw_engine(Canvas& canvas, const EngineRow& row, int y, int width) {
  const Ink ink = row.selected ? Ink::kSelected : Ink::kPlain;
  std::string texts[std::size(kEngine)] = {row.text};
  size_t next = 1;
  for (const double share : row.activity.engines) texts[next++] = percent_text(share);
  texts[next++] = percent_text(row.activity.collectives);
  texts[next++] = size_text(row.activity.dma_bytes) + "/s";
  texts[next++] = size_text(row.activity.link_bytes) + "/s";
  texts[next++] = flops_text(row.activity.flops);
  draw_columns_of(canvas, kEngine, fitting(kEngine, width), texts, y, ink);
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
  const auto headings = [&](const auto& columns, int room) {
    std::string texts[std::extent_v<std::remove_reference_t<decltype(columns)>>];
    for (size_t i = 0; i < std::size(columns); ++i) texts[i] = columns[i].heading;
    return draw_columns_of(canvas, columns, fitting(columns, room), texts, y, Ink::kFaint);
  };
  const int width = canvas.width();
  if (view.pane == Pane::kProcesses) {
    const int x = headings(kProcess, width - kCommandRoom);
    const bool wide = width - x > 18;
    canvas.put(x + 1, y, wide ? "CONTAINER, COMMAND" : "COMMAND", Ink::kFaint);
  } else {
    headings(kEngine, width);
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
    const auto at = static_cast<size_t>(first) + static_cast<size_t>(i);
    if (view.pane == Pane::kMemory) {
      draw_tree_row(canvas, view.tree[at], y + i, canvas.width());
    } else if (view.pane == Pane::kProcesses) {
      draw_process(canvas, view.processes[at], y + i, canvas.width());
    } else {
      draw_engine(canvas, view.engines[at], y + i, canvas.width());
    }
    Area area{0, y + i, canvas.width(), {}};
    area.target.row = keys[at];
    canvas.add_area(area);
  }
}

}  // namespace neuron::top
