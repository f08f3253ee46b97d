// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/output/json_writer.h"

#include "tools/common/json_text.h"

namespace neuron::monitor {

void append_json_string(std::string& out, std::string_view text) {
  // Nearly all texts of a report are plain.
  bool plain = true;
  for (const char c : text) plain = plain && c >= ' ' && c < 0x7f && c != '"' && c != '\\';
  if (!plain) {
    out += tools::json_string(text);
    return;
  }
  out += '"';
  out += text;
  out += '"';
}

}  // namespace neuron::monitor
