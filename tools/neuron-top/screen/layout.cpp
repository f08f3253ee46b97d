// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-top/screen/layout.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <vector>

#include "tools/common/terminal.h"
#include "tools/neuron-top/screen/parts.h"

namespace neuron::top {
namespace {

constexpr int kHelpLines = 8;  // fewer are too few for the page of keys

std::string count_text(uint64_t count, const char* what) {
  return std::string(what) + ": " + std::to_string(count);
}

void draw_title(Canvas& canvas, const View& view) {
  const int length = static_cast<int>(tools::columns_of(view.title));
  canvas.put(std::max(0, (canvas.width() - length) / 2), 0, view.title);
  canvas.paint_line(0, Ink::kTitle);
}

std::string grid_heading(const View& view) {
  std::string text = "NeuronCore ";
  if (!view.core_version.empty()) text += view.core_version + " ";
  if (view.flops) return text + "Effective FLOPS (Total: " + flops_text(view.total.flops) + ")";
  return text + "Utilization (Avg: " + percent_text(view.total.busy) + ")";
}

void draw_processor_bar(Canvas& canvas, int x, int y, int width, const char* label, double user,
                        double system, bool unicode) {
  const std::string numbers = "[" + percent_text(user) + ", " + percent_text(system) + "]";
  const int start = canvas.put(x, y, label, Ink::kPlain);
  const int bar = width - (start - x) - static_cast<int>(numbers.size()) - 1;
  if (bar > 0) draw_bar(canvas, start, y, bar, user, system, unicode);
  canvas.put(start + std::max(0, bar), y, numbers);
}

// A value with its name. Of a line that is too narrow for all, those with the highest `rank` are
// left out whole, the later ones first: a number is shown with its unit or not at all.
struct Field {
  std::string label, value;
  int rank = 0;
};

int width_of(const Field& field) {
  return 1 + static_cast<int>(field.label.size() + 1 + field.value.size());
}

void draw_fields(Canvas& canvas, int y, const char* heading, Ink ink, std::vector<Field> fields) {
  const int start = canvas.put(0, y, heading, ink);
  const auto width = [&] {
    int sum = start;
    for (const Field& field : fields) sum += width_of(field);
    return sum;
  };
  while (!fields.empty() && width() > canvas.width()) {
    const auto least =
        std::max_element(fields.rbegin(), fields.rend(),
                         [](const Field& a, const Field& b) { return a.rank < b.rank; });
    fields.erase(std::next(least).base());
  }
  int x = start;
  for (const Field& field : fields) {
    x = canvas.put(x + 1, y, field.label + " ", Ink::kFaint);
    x = canvas.put(x, y, field.value, Ink::kPlain);
  }
}

Field size_field(const char* label, uint64_t bytes, int rank) {
  return {label, size_text(static_cast<double>(bytes)), rank};
}

void draw_memory(Canvas& canvas, const View& view, int y) {
  const telemetry::HostMemory& host = view.host;
  const telemetry::CoreMemory& device = view.device;
  draw_fields(
      canvas, y, "Host Used Memory  ", Ink::kPlain,
      {size_field("Total:", host.total(), 0), size_field("Tensors:", host.tensors, 1),
       size_field("Constants:", host.constants, 2), size_field("DMA Buffers:", host.dma_buffers, 3),
       size_field("App. Memory:", host.application_memory, 4)});
  draw_fields(canvas, y + 1, "Device Used Memory", Ink::kPlain,
              {size_field("Total:", device.total(), 0), size_field("Tensors:", device.tensors, 1),
               size_field("Constants:", device.constants, 2),
               size_field("Model Code:", device.model_code, 3),
               size_field("Runtime Memory:", device.runtime_memory, 4),
               size_field("Model Scratchpad:", device.model_shared_scratchpad, 5)});
}

void draw_activity(Canvas& canvas, const View& view, int y) {
  static constexpr const char* kEngines[] = {"PE", "ACT", "POOL", "DVE", "SP"};
  std::vector<Field> fields;
  for (size_t i = 0; i < std::size(kEngines); ++i) {
    fields.push_back({kEngines[i], percent_text(view.total.engines[i]), 1});
  }
  fields.push_back({"DMA", size_text(view.total.dma_bytes) + "/s", 2});
  fields.push_back({"links", size_text(view.total.link_bytes) + "/s", 3});
  char executions[48];
  std::snprintf(executions, sizeof executions, "%.1f/s", view.total.executions);
  fields.push_back({"executions", executions, 0});
  draw_fields(canvas, y, "Engines", Ink::kHeading, std::move(fields));
}

void draw_errors(Canvas& canvas, const View& view, int y) {
  const telemetry::HardwareCounters& hardware = view.hardware;
  const uint64_t uncorrected = hardware.mem_ecc_uncorrected +
                               hardware.mem_ecc_repairable_uncorrected +
                               hardware.sram_ecc_uncorrected;
  int x = canvas.put(0, y, "Errors", Ink::kHeading) + 1;
  x = canvas.put(x, y, count_text(view.total.errors, "executions"),
                 view.total.errors > 0 ? Ink::kWarning : Ink::kPlain) +
      2;
  x = canvas.put(x, y, count_text(uncorrected, "ECC uncorrected"),
                 uncorrected > 0 ? Ink::kBad : Ink::kPlain) +
      2;
  x = canvas.put(x, y,
                 count_text(hardware.mem_ecc_corrected + hardware.sram_ecc_corrected, "corrected"),
                 Ink::kPlain) +
      2;
  const std::string hbm = size_text(static_cast<double>(view.memory_used)) + " of " +
                          size_text(static_cast<double>(view.memory_bytes));
  static constexpr const char kLabel[] = "HBM in use ";
  if (x + static_cast<int>(sizeof kLabel - 1 + hbm.size()) > canvas.width()) return;
  x = canvas.put(x, y, kLabel, Ink::kFaint);
  canvas.put(x, y, hbm, Ink::kPlain);
}

void draw_history(Canvas& canvas, const View& view, int y, bool unicode) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  int x = canvas.put(0, y, "History ", Ink::kHeading);
  const size_t room = static_cast<size_t>(std::max(0, canvas.width() - x));
  const size_t first = view.history.size() > room ? view.history.size() - room : 0;
  for (size_t i = first; i < view.history.size(); ++i) {
    const double share = view.history[i];
    if (unicode) {
      x = canvas.put(x, y, kBlocks[std::clamp(static_cast<int>(share * 8), 0, 7)], Ink::kFilled);
    } else {
      x = canvas.put(x, y, std::to_string(std::clamp(static_cast<int>(share * 10), 0, 9)),
                     Ink::kFilled);
    }
  }
}

// Draws notes; words that do not fit into one line go on in the next. At most `lines` lines.
int draw_notes(Canvas& canvas, const View& view, int y, int lines) {
  int used = 0;
  for (const std::string& note : view.notes) {
    size_t at = 0;
    while (at < note.size() && used < lines) {
      size_t end = note.size();
      if (end - at > static_cast<size_t>(canvas.width())) {
        end = note.rfind(' ', at + static_cast<size_t>(canvas.width()));
        if (end == std::string::npos || end <= at) {
          end = std::min(note.size(), at + static_cast<size_t>(canvas.width()));
          // Not within a character.
          while (end < note.size() && end > at + 1 && (note[end] & 0xc0) == 0x80) --end;
        }
      }
      canvas.put(0, y + used, std::string_view(note).substr(at, end - at), Ink::kWarning);
      ++used;
      at = note.find_first_not_of(' ', end);
      if (at == std::string::npos) break;
    }
  }
  return used;
}

std::string tab_text(const View& view, size_t i) {
  const Tab& tab = view.tabs[i];
  return (tab.active ? ">[" : " [") + std::to_string(i + 1) + "]:" + tab.label +
         (tab.active ? "< " : "  ");
}

// The first tab to show, so that the active one is visible.
size_t first_tab(const View& view, int room) {
  size_t active = 0;
  while (active < view.tabs.size() && !view.tabs[active].active) ++active;
  if (active == view.tabs.size()) return 0;
  size_t first = active;
  size_t columns = 1 + tools::columns_of(tab_text(view, active));  // 1: the sign for more
  while (first > 0) {
    columns += tools::columns_of(tab_text(view, first - 1));
    if (columns > static_cast<size_t>(std::max(0, room))) break;
    --first;
  }
  return first;
}

void draw_footer(Canvas& canvas, const View& view, int y, int lines) {
  int x = canvas.put(0, y, canvas.width() >= 60 ? "Neuron Apps  " : "", Ink::kHeading);
  const size_t first = first_tab(view, canvas.width() - x);
  if (first > 0) x = canvas.put(x, y, "<", Ink::kFaint);
  for (size_t i = first; i < view.tabs.size(); ++i) {
    const Tab& tab = view.tabs[i];
    const int start = x;
    x = canvas.put(x, y, tab_text(view, i), tab.active ? Ink::kActive : Ink::kPlain);
    Area area{start, y, x - start, {}};
    area.target.kind = Target::Kind::kTab;
    area.target.tab = tab.pid;
    canvas.add_area(area);
  }
  if (lines < 2) return;
  std::string hints =
      view.typing ? "type the filter, Enter: keep, Escape: clear"
                  : "q: quit  ?: help  arrows: move tree selection  enter: expand/collapse tree "
                    "item  x: expand/collapse entire tree  a/d: previous/next tab  f: FLOPS "
                    "on/off  1-9: select tab";
  if (!view.status.empty()) hints = "[" + view.status + "] " + hints;
  canvas.put(0, y + 1, hints, view.status.empty() ? Ink::kFaint : Ink::kActive);
}

// Used if there is no room for sections: one line for each of the most important values.
void draw_small(Canvas& canvas, const View& view, const LayoutOptions& options) {
  int y = 1;
  const int notes = draw_notes(canvas, view, y, view.devices.empty() ? canvas.height() - 2 : 1);
  y += notes;
  const int room = canvas.height() - 1 - y;  // the last line: tabs
  if (room > 0 && !view.devices.empty()) {
    canvas.put(0, y++,
               percent_text(view.total.busy) + " " +
                   size_text(static_cast<double>(view.device.total())) + " " +
                   std::to_string(view.cores_used) + "/" + std::to_string(view.cores) + " cores",
               Ink::kHeading);
  }
  const int left = canvas.height() - 1 - y;
  if (left > 0) draw_heat(canvas, view, y, left, options.unicode);
  if (canvas.height() > 1) {
    const int last = canvas.height() - 1;
    for (const Tab& tab : view.tabs) {
      if (!tab.active) continue;
      const std::string hints = canvas.height() >= kHelpLines ? "< q:quit ?:help" : "< q:quit";
      canvas.put(0, last, ">" + tab.label + hints, Ink::kActive);
    }
  }
}

void draw_large(Canvas& canvas, const View& view, const LayoutOptions& options) {
  const int width = canvas.width(), height = canvas.height();
  const int footer = 2;
  int y = 1;
  y += draw_notes(canvas, view, y, std::max(1, height / 4));
  // The room that is left after the minimum for the lower pane.
  const int pane = 5;
  int room = height - footer - pane - y;
  const bool bars = grid_lines(view, width) <= std::max(room - 5, height / 2);
  const int cores =
      bars ? grid_lines(view, width) : std::min(heat_lines(view, width), std::max(1, room - 2));
  canvas.put(0, y++, grid_heading(view), Ink::kHeading);
  if (bars) {
    draw_grid(canvas, view, y, options.unicode);
  } else {
    draw_heat(canvas, view, y, cores, options.unicode);
  }
  y += cores;
  room -= cores + 1;
  const auto take = [&](int lines) {
    if (room < lines) return false;
    room -= lines;
    return true;
  };
  // The most needed first.
  const bool memory = take(3), processors = take(3), errors = take(1), activity = take(1),
             history = view.show_history && !view.history.empty() && take(1);
  if (processors) {
    canvas.put(0, y++, "vCPU Utilization", Ink::kHeading);
    draw_processor_bar(canvas, 0, y++, width, "System vCPU Usage  ", view.system_user,
                       view.system_system, options.unicode);
    draw_processor_bar(canvas, 0, y++, width, "Runtime vCPU Usage ", view.runtime_user,
                       view.runtime_system, options.unicode);
  }
  if (memory) {
    canvas.put(0, y++, "Memory Usage Summary", Ink::kHeading);
    draw_memory(canvas, view, y);
    y += 2;
  }
  if (activity) draw_activity(canvas, view, y++);
  if (errors) draw_errors(canvas, view, y++);
  if (history) draw_history(canvas, view, y++, options.unicode);
  draw_pane(canvas, view, y, height - footer - y);
  draw_footer(canvas, view, height - footer, footer);
}

}  // namespace

Canvas lay_out(const View& view, const LayoutOptions& options) {
  Canvas canvas(options.width, options.height);
  if (options.height <= 0 || options.width <= 0) return canvas;
  draw_title(canvas, view);
  if (view.help && options.height >= kHelpLines) {
    draw_help(canvas);
  } else if (options.height < 14 || options.width < 40) {
    draw_small(canvas, view, options);
  } else {
    draw_large(canvas, view, options);
  }
  if (!options.unicode) canvas.make_ascii();
  return canvas;
}

}  // namespace neuron::top
