// SPDX-License-Identifier: Apache-2.0
// Draws how the visible devices are connected: a row in which the ends may be joined, or rows of
// four where a row cannot show every link (a 4x4 torus). A line is a link that both its ends have.
#include <algorithm>
#include <set>
#include <utility>

#include "tools/neuron-ls/view/inventory.h"

namespace neuron::ls {
namespace {

struct Glyphs {
  const char *both, *wrap_left, *wrap_right, *up, *line, *down, *stub;
};
constexpr Glyphs kUnicode = {"◄––►", "*––►", "◄––*", "▲", "│", "▼", "*"};
constexpr Glyphs kAscii = {"<-->", "*-->", "<--*", "^", "|", "v", "*"};
constexpr const char* kNoLink = "    ";
constexpr int kGridColumns = 4;

std::string node(int index) {
  std::string id = std::to_string(index);
  return "[" + std::string(id.size() < 2 ? 1 : 0, ' ') + id + " ]";
}

bool linked(const Device* a, const Device* b) {
  return a != nullptr && b != nullptr && a != b &&
         std::find(a->connected.begin(), a->connected.end(), b->index) != a->connected.end();
}

// The places of the drawing: rows of devices, null where none is visible. Rows and columns in
// which no device is visible are left out.
using Places = std::vector<std::vector<const Device*>>;

Places in_a_row(const Inventory& inventory) {
  Places places(1);
  for (const Device& device : inventory.devices) places[0].push_back(&device);
  return places;
}

Places in_a_grid(const Inventory& inventory) {
  std::vector<int> rows, columns;
  for (const Device& device : inventory.devices) {
    rows.push_back(device.index / kGridColumns);
    columns.push_back(device.index % kGridColumns);
  }
  for (std::vector<int>* list : {&rows, &columns}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  Places places(rows.size(), std::vector<const Device*>(columns.size()));
  const auto place_in = [](const std::vector<int>& list, int number) {
    return static_cast<size_t>(std::find(list.begin(), list.end(), number) - list.begin());
  };
  for (const Device& device : inventory.devices) {
    places[place_in(rows, device.index / kGridColumns)]
          [place_in(columns, device.index % kGridColumns)] = &device;
  }
  return places;
}

// Whether the first and the last of `count` places in a line are joined by a wrap-around; of two
// places the link between them is drawn already.
bool wraps(const Device* first, const Device* last, size_t count) {
  return count > 2 && linked(first, last);
}

// How many links between visible devices the drawing shows.
size_t links_shown(const Places& places) {
  size_t shown = 0;
  const size_t rows = places.size(), columns = places[0].size();
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column + 1 < columns; ++column) {
      shown += linked(places[row][column], places[row][column + 1]);
    }
    shown += wraps(places[row].front(), places[row].back(), columns);
  }
  for (size_t column = 0; column < columns; ++column) {
    for (size_t row = 0; row + 1 < rows; ++row) {
      shown += linked(places[row][column], places[row + 1][column]);
    }
    shown += wraps(places.front()[column], places.back()[column], rows);
  }
  return shown;
}

size_t links_between(const Inventory& inventory) {
  size_t links = 0;
  for (const Device& a : inventory.devices) {
    for (const Device& b : inventory.devices) links += a.index < b.index && linked(&a, &b);
  }
  return links;
}

// The drawing shows how chips are wired, so what does not work is said below it.
std::string links_down(const Inventory& inventory) {
  std::set<std::pair<int, int>> down;
  for (const Device& device : inventory.devices) {
    for (const int other : device.links_down) down.insert(std::minmax(device.index, other));
  }
  std::string text;
  for (const auto& [a, b] : down) {
    text += text.empty() ? "\nLinks that are down: " : ", ";
    text += std::to_string(a) + " - " + std::to_string(b);
  }
  return text.empty() ? text : text + "\n";
}

std::string ended(std::string text) {
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

// A mark under the middle of each node that has a link there.
std::string column_marks(const char* mark, const std::vector<bool>& has_link) {
  std::string text = "      ";
  for (size_t i = 0; i < has_link.size(); ++i) {
    text += std::string(i ? 8 : 0, ' ') + (has_link[i] ? mark : " ");
  }
  return ended(text);
}

// The three lines between two rows, or beyond the first or the last one.
std::string vertical(const std::vector<bool>& has_link, const char* top, const char* middle,
                     const char* bottom) {
  if (std::find(has_link.begin(), has_link.end(), true) == has_link.end()) return "";
  return column_marks(top, has_link) + column_marks(middle, has_link) +
         column_marks(bottom, has_link);
}

std::string row_text(const std::vector<const Device*>& row, const Glyphs& glyphs, bool margin) {
  const bool wrap = wraps(row.front(), row.back(), row.size());
  std::string text = wrap ? glyphs.wrap_left : (margin ? kNoLink : "");
  for (size_t i = 0; i < row.size(); ++i) {
    if (i != 0) text += linked(row[i - 1], row[i]) ? glyphs.both : kNoLink;
    text += row[i] != nullptr ? node(row[i]->index) : "     ";
  }
  return ended(text + (wrap ? glyphs.wrap_right : ""));
}

std::string drawing(const Places& places, const Glyphs& glyphs) {
  const size_t rows = places.size(), columns = places[0].size();
  std::vector<bool> around(columns);
  for (size_t column = 0; column < columns; ++column) {
    around[column] = wraps(places.front()[column], places.back()[column], rows);
  }
  std::string text = vertical(around, glyphs.stub, glyphs.line, glyphs.down);
  for (size_t row = 0; row < rows; ++row) {
    text += row_text(places[row], glyphs, rows > 1);
    if (row + 1 == rows) break;
    std::vector<bool> below(columns);
    for (size_t column = 0; column < columns; ++column) {
      below[column] = linked(places[row][column], places[row + 1][column]);
    }
    text += vertical(below, glyphs.up, glyphs.line, glyphs.down);
  }
  return text + vertical(around, glyphs.up, glyphs.line, glyphs.stub);
}

}  // namespace

std::string format_topology(const Inventory& inventory, bool unicode) {
  const Glyphs& glyphs = unicode ? kUnicode : kAscii;
  std::string text = "\nNeuron Device Topology\n";
  size_t hidden = 0;
  if (!inventory.devices.empty()) {
    const size_t links = links_between(inventory);
    Places places = in_a_row(inventory);
    if (links_shown(places) < links) places = in_a_grid(inventory);
    hidden = links - std::min(links, links_shown(places));
    text += drawing(places, glyphs);
  }
  text += links_down(inventory);
  text += std::string("\nLegend:\n\n") + glyphs.wrap_left + " = Wrap-around link\n";
  if (hidden != 0) {
    text += std::to_string(hidden) + " of the links are not drawn; neuron-ls --matrix shows all\n";
  }
  return text;
}

}  // namespace neuron::ls
