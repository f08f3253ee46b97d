// SPDX-License-Identifier: Apache-2.0
//
// Metrics in the text format of Prometheus (version 0.0.4), of which OpenMetrics is a dialect.
// Callers: neuron-monitor, neuron-serve. One thread for each text. Cannot fail: characters that a
// label cannot hold become spaces, bytes that are no UTF-8 become U+FFFD.
#ifndef TOOLS_COMMON_PROMETHEUS_TEXT_H
#define TOOLS_COMMON_PROMETHEUS_TEXT_H

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/common/number_text.h"

namespace neuron::tools {

using Labels = std::vector<std::pair<const char*, std::string>>;  // in the order they are written

class PrometheusText {
 public:
  // Labels that every sample has behind its own.
  explicit PrometheusText(const Labels& common = {});

  // The head of a family: samples that follow belong to it.
  void family(std::string name, std::string_view type, std::string_view help);
  // The name of a sample is that of its family and the suffix ("_bucket").
  template <class Value>
  void sample(std::string_view suffix, const Labels& labels, Value value) {
    append_name(suffix, labels);
    append_number(text_, value);
    text_ += '\n';
  }
  void line(std::string_view text);

  std::string take() { return std::move(text_); }

 private:
  void append_name(std::string_view suffix, const Labels& labels);

  std::string common_, family_, text_;
};

}  // namespace neuron::tools

#endif
