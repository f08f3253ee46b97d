// SPDX-License-Identifier: Apache-2.0
// Draws how the devices are connected: a 4x4 torus (16 devices), or a row in which the ends may be
// joined.
#include "tools/neuron-ls/view/inventory.h"

namespace neuron::ls {
namespace {

struct Glyphs {
  const char *both, *wrap_left, *wrap_right, *up, *line, *down, *stub;
};
constexpr Glyphs kUnicode = {"◄––►", "*––►", "◄––*", "▲", "│", "▼", "*"};
constexpr Glyphs kAscii = {"<-->", "*-->", "<--*", "^", "|", "v", "*"};

std::string node(int index) {
  std::string id = std::to_string(index);
  return "[" + std::string(id.size() < 2 ? 1 : 0, ' ') + id + " ]";
}

// One character under the middle of every node of a row of four.
std::string column_marks(const char* mark, size_t nodes) {
  std::string text = "      ";
  for (size_t i = 0; i < nodes; ++i) text += std::string(i ? 8 : 0, ' ') + mark;
  return text + "\n";
}

std::string torus(const Inventory& inventory, const Glyphs& glyphs) {
  std::string text =
      column_marks(glyphs.stub, 4) + column_marks(glyphs.line, 4) + column_marks(glyphs.down, 4);
  for (size_t row = 0; row < 4; ++row) {
    text += glyphs.wrap_left;
    for (size_t column = 0; column < 4; ++column) {
      text += (column ? glyphs.both : "") + node(inventory.devices[row * 4 + column].index);
    }
    text += std::string(glyphs.wrap_right) + "\n";
    if (row < 3) {
      text +=
          column_marks(glyphs.up, 4) + column_marks(glyphs.line, 4) + column_marks(glyphs.down, 4);
    }
  }
  return text + column_marks(glyphs.up, 4) + column_marks(glyphs.line, 4) +
         column_marks(glyphs.stub, 4);
}

std::string row_of(const Inventory& inventory, const Glyphs& glyphs) {
  const auto& devices = inventory.devices;
  const bool ring = devices.size() > 2 && devices.front().connected.size() == 2;
  std::string text = ring ? glyphs.wrap_left : "";
  for (size_t i = 0; i < devices.size(); ++i) {
    const bool linked = i && !devices[i].connected.empty();
    text += (i ? (linked ? glyphs.both : "    ") : "") + node(devices[i].index);
  }
  return text + (ring ? glyphs.wrap_right : "") + "\n";
}

}  // namespace

std::string format_topology(const Inventory& inventory, bool unicode) {
  const Glyphs& glyphs = unicode ? kUnicode : kAscii;
  const bool is_torus =
      inventory.devices.size() == 16 && inventory.devices.front().connected.size() == 4;
  std::string text = "\nNeuron Device Topology\n";
  text += is_torus ? torus(inventory, glyphs) : row_of(inventory, glyphs);
  return text + "\nLegend:\n\n" + glyphs.wrap_left + " = Wrap-around link\n";
}

}  // namespace neuron::ls
