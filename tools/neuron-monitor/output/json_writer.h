// SPDX-License-Identifier: Apache-2.0
//
// Appends JSON to a string, on one line or indented. It is cheap, because a report is written every
// period on a busy host: it builds no tree, and numbers do not pass through a locale.
// Callers: json_report.cpp, otlp.cpp. One thread for each writer. Borrows: the string.
// Never fails: NaN and infinity become 0, bytes that are not UTF-8 become U+FFFD.
#ifndef TOOLS_NEURON_MONITOR_OUTPUT_JSON_WRITER_H
#define TOOLS_NEURON_MONITOR_OUTPUT_JSON_WRITER_H

#include <concepts>
#include <string>
#include <string_view>

#include "driver/base/json_text.h"
#include "tools/common/number_text.h"

namespace neuron::monitor {

using base::append_json_string;
using tools::append_number;

class JsonWriter {
 public:
  JsonWriter(std::string& out, bool pretty) : out_(out), pretty_(pretty) {}

  void open_object() { open('{'); }
  void open_object(std::string_view key) { this->key(key), open('{'); }
  void close_object() { close('}'); }
  void open_array() { open('['); }
  void open_array(std::string_view key) { this->key(key), open('['); }
  void close_array() { close(']'); }

  // The key has only characters that need no escape.
  void key(std::string_view name) {
    separate();
    out_ += '"';
    out_ += name;
    out_ += pretty_ ? "\": " : "\":";
    after_key_ = true;
  }
  void value(std::string_view text) { separate(), append_json_string(out_, text); }
  void value(const char* text) { value(std::string_view(text)); }
  void value(bool truth) { separate(), out_ += truth ? "true" : "false"; }
  void value(double number) { separate(), append_number(out_, number); }
  void value(std::integral auto number) { separate(), append_number(out_, number); }
  void null() { separate(), out_ += "null"; }
  template <typename T>
  void member(std::string_view name, const T& what) {
    key(name);
    value(what);
  }

 private:
  void separate() {
    if (after_key_) {
      after_key_ = false;
      return;
    }
    if (!empty_) out_ += ',';
    empty_ = false;
    if (level_ > 0) new_line();
  }
  void open(char bracket) {
    separate();
    out_ += bracket;
    ++level_;
    empty_ = true;
  }
  void close(char bracket) {
    --level_;
    if (!empty_) new_line();
    out_ += bracket;
    empty_ = false;
  }
  void new_line() {
    if (!pretty_) return;
    out_ += '\n';
    out_.append(static_cast<size_t>(level_) * 2, ' ');
  }

  std::string& out_;
  const bool pretty_;
  bool empty_ = true, after_key_ = false;
  int level_ = 0;
};

}  // namespace neuron::monitor

#endif
