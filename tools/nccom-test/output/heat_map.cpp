// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/output/heat_map.h"

#include <algorithm>
#include <cstdio>

#include "driver/base/json_text.h"
#include "tools/nccom-test/output/report.h"

namespace neuron::nccom {

using ccom::format;

namespace {

constexpr size_t kMostSlow = 20;

std::string fixed(double value, int width, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%*.*f", width, digits, value);
  return text;
}

void sort_by_load(std::vector<LinkLoad>& loads) {
  std::stable_sort(loads.begin(), loads.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return a.busy != b.busy ? a.busy > b.busy : a.bytes > b.bytes;
  });
}

}  // namespace

std::vector<PairLink> pair_links(const std::vector<std::vector<double>>& times_us, uint64_t bytes) {
  std::vector<PairLink> links;
  std::vector<double> rates;
  for (uint32_t from = 0; from < times_us.size(); ++from) {
    for (uint32_t to = 0; to < times_us[from].size(); ++to) {
      const double time = times_us[from][to];
      if (from == to || time <= 0) continue;
      links.push_back({from, to, static_cast<double>(bytes) / (time * 1e-6), time, false});
      rates.push_back(links.back().bytes_per_second);
    }
  }
  const double median = percentile(rates, 50);
  for (PairLink& link : links) link.slow = link.bytes_per_second < median * kSlowShare;
  return links;
}

std::string format_pairs(const std::vector<PairLink>& links, uint32_t ranks, uint64_t bytes,
                         bool gibibytes) {
  std::string text =
      format("{} between pairs of ranks, {} B, from (row) to (column):\n", unit(gibibytes), bytes);
  std::vector<std::string> cells(uint64_t{ranks} * ranks, "-");
  for (const PairLink& link : links) {
    cells[uint64_t{link.from} * ranks + link.to] =
        fixed(in_unit(link.bytes_per_second, gibibytes), 0, 2) + (link.slow ? "!" : "");
  }
  size_t width = 4;
  for (const std::string& cell : cells) width = std::max(width, cell.size());
  const auto padded = [&](const std::string& cell) {
    return "  " + std::string(width - std::min(width, cell.size()), ' ') + cell;
  };
  text += "    ";
  for (uint32_t to = 0; to < ranks; ++to) text += padded(std::to_string(to));
  text += "\n";
  for (uint32_t from = 0; from < ranks; ++from) {
    const std::string name = std::to_string(from);
    text += std::string(4 - std::min<size_t>(4, name.size()), ' ') + name;
    for (uint32_t to = 0; to < ranks; ++to) text += padded(cells[uint64_t{from} * ranks + to]);
    text += "\n";
  }
  std::vector<PairLink> slow;
  for (const PairLink& link : links) {
    if (link.slow) slow.push_back(link);
  }
  std::sort(slow.begin(), slow.end(), [](const PairLink& a, const PairLink& b) {
    return a.bytes_per_second < b.bytes_per_second;
  });
  if (slow.empty()) return text + "No link is slower than half of the median.\n";
  text += format("{} of {} links are slower than half of the median:\n", slow.size(), links.size());
  for (size_t i = 0; i < std::min(slow.size(), kMostSlow); ++i) {
    text += format("  {} -> {}:", slow[i].from, slow[i].to) +
            fixed(in_unit(slow[i].bytes_per_second, gibibytes), 9, 3) + " " + unit(gibibytes) +
            "\n";
  }
  return text;
}

std::string pairs_json(const std::vector<PairLink>& links, uint64_t bytes) {
  std::string text = format("{{\"bytes\": {}, \"links\": [", bytes);
  for (size_t i = 0; i < links.size(); ++i) {
    const PairLink& link = links[i];
    text += format("{}\n  {{\"from\": {}, \"to\": {}, \"time(us)\": ", i == 0 ? "" : ",", link.from,
                   link.to) +
            fixed(link.time_us, 0, 3) +
            ", \"bandwidth(GB/s)\": " + fixed(link.bytes_per_second / 1e9, 0, 4) +
            ", \"slow\": " + (link.slow ? "true" : "false") + "}";
  }
  return text + "\n]}\n";
}

std::string format_loads(std::vector<LinkLoad> loads, size_t most) {
  sort_by_load(loads);
  size_t width = 4;
  for (size_t i = 0; i < std::min(most, loads.size()); ++i) {
    width = std::max(width, loads[i].name.size());
  }
  std::string text = format("Busiest of {} links:\n", loads.size());
  for (size_t i = 0; i < std::min(most, loads.size()); ++i) {
    const LinkLoad& load = loads[i];
    const auto bar = static_cast<size_t>(std::clamp(load.busy, 0.0, 1.0) * 40 + 0.5);
    text += "  " + load.name + std::string(width - load.name.size(), ' ') +
            fixed(load.busy * 100, 7, 1) + " %  " +
            fixed(static_cast<double>(load.bytes) / 1e6, 12, 3) + " MB  " + std::string(bar, '#') +
            "\n";
  }
  return text;
}

std::string loads_json(std::vector<LinkLoad> loads) {
  sort_by_load(loads);
  std::string text = "{\"links\": [";
  for (size_t i = 0; i < loads.size(); ++i) {
    text += std::string(i == 0 ? "" : ",") + "\n  {\"name\": " + base::json_string(loads[i].name) +
            ", \"bytes\": " + std::to_string(loads[i].bytes) +
            ", \"busy\": " + fixed(loads[i].busy, 0, 6) + "}";
  }
  return text + "\n]}\n";
}

}  // namespace neuron::nccom
