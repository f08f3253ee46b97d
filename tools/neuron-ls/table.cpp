// SPDX-License-Identifier: Apache-2.0
// The table of the original: two centred header rows, one row a device, one more for each further
// process.
#include <algorithm>

#include "tools/neuron-ls/inventory.h"

namespace neuron::ls {
namespace {

constexpr size_t kNarrowCommand = 40, kWideCommand = 80;
constexpr size_t kLeastWidth = 4;  // six with the padding

struct Column {
  std::string head1, head2;
  std::vector<std::string> cells;
  size_t width() const {
    size_t width = std::max<size_t>({kLeastWidth, head1.size(), head2.size()});
    for (const std::string& cell : cells) width = std::max(width, cell.size());
    return width;
  }
};

std::string rule(const std::vector<Column>& columns) {
  std::string line = "+";
  for (const Column& column : columns) line += std::string(column.width() + 2, '-') + "+";
  return line + "\n";
}

std::string centred(const std::string& text, size_t width) {
  const size_t left = (width - text.size()) / 2;
  return " " + std::string(left, ' ') + text + std::string(width - text.size() - left, ' ') + " |";
}

std::string joined(const std::vector<int>& values) {
  std::string text;
  for (int value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

std::string shortened(const std::string& text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit - 3;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // not inside a UTF-8 character
  return text.substr(0, end) + "...";
}

std::string core_range(const Device& device) {
  const unsigned last = device.first_core + device.cores - 1;
  return device.cores <= 1 ? std::to_string(last)
                           : std::to_string(device.first_core) + "-" + std::to_string(last);
}

}  // namespace

std::string format_table(const Inventory& inventory, bool wide) {
  bool links = false, processes = false, several = false;
  for (const Device& device : inventory.devices) {
    links = links || !device.connected.empty();
    processes = processes || !device.processes.empty();
    several = several || device.processes.size() > 1;
  }
  std::vector<Column> columns = {{"NEURON", "DEVICE", {}},
                                 {"NEURON", "CORES", {}},
                                 {"NEURON", "CORE IDS", {}},
                                 {"NEURON", "MEMORY", {}}};
  if (links) columns.push_back({"CONNECTED", "DEVICES", {}});
  columns.push_back({"PCI", "BDF", {}});
  columns.push_back({"CPU", "AFFINITY", {}});
  columns.push_back({"NUMA", "NODE", {}});
  if (processes) {
    columns.push_back({"", "PID", {}});
    columns.push_back({"", "COMMAND", {}});
    columns.push_back({"RUNTIME", "VERSION", {}});
  }
  std::vector<bool> starts_device;
  for (const Device& device : inventory.devices) {
    for (size_t p = 0; p < std::max<size_t>(1, device.processes.size()); ++p) {
      std::vector<std::string> row;
      if (p == 0) {
        row = {std::to_string(device.index), std::to_string(device.cores), core_range(device),
               std::to_string(device.memory_bytes >> 30) + " GB"};
        if (links) row.push_back(joined(device.connected));
        row.insert(row.end(), {device.bdf, device.cpu_affinity, std::to_string(device.numa_node)});
      } else {
        row.assign(links ? 8 : 7, "");
      }
      if (processes && p < device.processes.size()) {
        const Process& process = device.processes[p];
        row.insert(row.end(), {std::to_string(process.pid),
                               shortened(process.command, wide ? kWideCommand : kNarrowCommand),
                               process.runtime_version});
      }
      row.resize(columns.size());
      for (size_t c = 0; c < columns.size(); ++c) columns[c].cells.push_back(row[c]);
      starts_device.push_back(p == 0);
    }
  }
  std::string text = rule(columns) + "|";
  for (const Column& column : columns) text += centred(column.head1, column.width());
  text += "\n|";
  for (const Column& column : columns) text += centred(column.head2, column.width());
  text += "\n" + rule(columns);
  for (size_t row = 0; row < starts_device.size(); ++row) {
    if (several && row > 0 && starts_device[row]) text += rule(columns);
    text += "|";
    for (const Column& column : columns)
      text += " " + column.cells[row] +
              std::string(column.width() - column.cells[row].size(), ' ') + " |";
    text += "\n";
  }
  return text + rule(columns);
}

}  // namespace neuron::ls
