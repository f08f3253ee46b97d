// SPDX-License-Identifier: Apache-2.0
// The table of the original: two centred header rows, one row a device, one more for each further
// process.
#include <algorithm>

#include "tools/common/terminal.h"
#include "tools/neuron-ls/view/inventory.h"

namespace neuron::ls {
namespace {

constexpr size_t kNarrowCommand = 40, kWideCommand = 80;
constexpr size_t kLeastWidth = 4;  // six with the padding

struct Column {
  std::string head1, head2;
  std::vector<std::string> cells;
  size_t width() const {
    size_t width = std::max<size_t>({kLeastWidth, head1.size(), head2.size()});
    for (const std::string& cell : cells) width = std::max(width, tools::columns_of(cell));
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

std::string megabytes(uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MB";
}

}  // namespace

std::string format_table(const Inventory& inventory, bool wide) {
  bool links = false, processes = false, several = false;
  for (const Device& device : inventory.devices) {
    links = links || !device.connected.empty();
    processes = processes || !device.processes.empty();
    several = several || device.processes.size() > 1;
  }
  const bool later = wide || !inventory.of_first_chip;  // with columns that came later
  std::vector<Column> columns = {{"NEURON", "DEVICE", {}}, {"NEURON", "CORES", {}}};
  if (later) columns.push_back({"NEURON", "CORE IDS", {}});
  columns.push_back({"NEURON", "MEMORY", {}});
  if (wide) columns.push_back({"MEMORY", "USED", {}});
  if (links) columns.push_back({"CONNECTED", "DEVICES", {}});
  columns.push_back({"PCI", "BDF", {}});
  if (later) columns.push_back({"CPU", "AFFINITY", {}});
  if (later) columns.push_back({"NUMA", "NODE", {}});
  if (wide) columns.push_back({"DEVICE", "STATE", {}});
  const size_t of_device = columns.size();
  if (processes) {
    columns.push_back({"", "PID", {}});
    columns.push_back({"", "COMMAND", {}});
    columns.push_back({"RUNTIME", "VERSION", {}});
  }
  if (processes && wide) {
    columns.push_back({"", "USER", {}});
    columns.push_back({"CORES", "HELD", {}});
    columns.push_back({"DEVICE", "MEMORY", {}});
    columns.push_back({"HELD", "SINCE", {}});
  }
  std::vector<bool> starts_device;
  for (const Device& device : inventory.devices) {
    for (size_t p = 0; p < std::max<size_t>(1, device.processes.size()); ++p) {
      std::vector<std::string> row;
      if (p == 0) {
        row = {std::to_string(device.index), std::to_string(device.cores)};
        if (later) row.push_back(core_range(device));
        row.push_back(std::to_string(device.memory_bytes >> 30) + " GB");
        if (wide) row.push_back(megabytes(device.memory_used));
        if (links) row.push_back(joined(device.connected));
        row.push_back(device.bdf);
        if (later) row.insert(row.end(), {device.cpu_affinity, std::to_string(device.numa_node)});
        if (wide) row.push_back(device.state);
      } else {
        row.assign(of_device, "");
      }
      if (processes && p < device.processes.size()) {
        const Process& process = device.processes[p];
        row.insert(row.end(), {std::to_string(process.pid),
                               shortened(process.command, wide ? kWideCommand : kNarrowCommand),
                               process.runtime_version});
        if (wide) {
          row.insert(row.end(),
                     {process.user, process.cores, megabytes(process.memory_bytes), process.since});
        }
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
    for (const Column& column : columns) {
      text += " " + column.cells[row] +
              std::string(column.width() - tools::columns_of(column.cells[row]), ' ') + " |";
    }
    text += "\n";
  }
  return text + rule(columns);
}

}  // namespace neuron::ls
