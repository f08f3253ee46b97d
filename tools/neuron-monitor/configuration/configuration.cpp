// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/configuration/configuration.h"

#include <array>
#include <boost/regex.hpp>

#include "runtime/base/file.h"
#include "tools/neuron-monitor/configuration/json_tree.h"

namespace neuron::monitor {
namespace {

using Kind = JsonNode::Kind;

constexpr std::array<std::string_view, kGroups> kNames = {
    "neuroncore_counters", "memory_used", "neuron_runtime_vcpu_usage", "execution_stats",
    "vcpu_usage",          "memory_info", "neuron_hw_counters"};

bool of_runtime(Group group) { return static_cast<unsigned>(group) < kRuntimeGroups; }

std::string names(bool of_runtimes) {
  std::string out;
  for (unsigned i = 0; i < kGroups; ++i) {
    if (of_runtime(static_cast<Group>(i)) != of_runtimes) continue;
    out += (out.empty() ? "\"" : ", \"") + std::string(kNames[i]) + "\"";
  }
  return out;
}

class Reader {
 public:
  Reader(const std::string& file, Configuration& out) : file_(file), out_(out) {}
  const std::string& error() const { return error_; }

  bool root(const JsonNode& node) {
    if (node.kind != Kind::kObject) {
      return refuse(node,
                    "expected an object with \"period\", \"neuron_runtimes\" and "
                    "\"system_metrics\", found " +
                        node.description());
    }
    // Periods are read first: they apply wherever they stand in the object.
    std::optional<Duration> period;
    if (!own_period(node, period)) return false;
    const Duration inherited = out_.period = period.value_or(kDefaultPeriod);
    for (const JsonNode::Member& member : node.members) {
      const JsonNode& value = member.value;
      if (member.key == "period") {
      } else if (member.key == "neuron_runtimes") {
        if (!array(value, "neuron_runtimes", "objects with \"tag_filter\" and \"metrics\"")) {
          return false;
        }
        for (const JsonNode& element : value.elements) {
          if (!runtime(element, inherited)) return false;
        }
      } else if (member.key == "system_metrics") {
        if (!metrics(value, "system_metrics", false, inherited, out_.system_metrics)) return false;
      } else if (member.key == "k8s_info") {
        if (!k8s(value, inherited)) return false;
      } else {
        unknown(member, "\"period\", \"neuron_runtimes\", \"system_metrics\" and \"k8s_info\"");
      }
    }
    if (out_.runtimes.empty() && out_.system_metrics.empty() && !out_.k8s_period) {
      warn(node.line, node.column, "this asks for no metric: reports have no more than hardware");
    }
    return true;
  }

 private:
  std::string place(unsigned line, unsigned column) const {
    return file_ + ":" + std::to_string(line) + ":" + std::to_string(column) + ": ";
  }
  bool refuse(const JsonNode& node, const std::string& sentence) {
    error_ = place(node.line, node.column) + sentence;
    return false;
  }
  void warn(unsigned line, unsigned column, const std::string& sentence) {
    out_.warnings.push_back(place(line, column) + sentence);
  }
  void unknown(const JsonNode::Member& member, const char* known) {
    warn(member.line, member.column,
         "\"" + member.key + "\" means nothing here and is not used; known are " + known);
  }
  bool array(const JsonNode& node, const char* key, const char* of) {
    return node.kind == Kind::kArray ||
           refuse(node, std::string("\"") + key + "\" must be an array of " + of + ", found " +
                            node.description());
  }

  bool own_period(const JsonNode& node, std::optional<Duration>& period) {
    for (const JsonNode::Member& member : node.members) {
      if (member.key != "period") continue;
      if (member.value.kind != Kind::kString) {
        return refuse(member.value,
                      "\"period\" must be a string such as \"5s\" or \"500ms\", found " +
                          member.value.description());
      }
      std::string sentence;
      period = parse_period(member.value.text, sentence);
      if (!period) return refuse(member.value, "\"period\": " + sentence);
    }
    return true;
  }

  bool runtime(const JsonNode& node, Duration inherited) {
    if (node.kind != Kind::kObject) {
      return refuse(node,
                    "each of \"neuron_runtimes\" must be an object with \"tag_filter\" and "
                    "\"metrics\", found " +
                        node.description());
    }
    std::optional<Duration> period;
    if (!own_period(node, period)) return false;
    RuntimeSelection selection;
    bool has_metrics = false;
    for (const JsonNode::Member& member : node.members) {
      if (member.key == "period") {
      } else if (member.key == "tag_filter") {
        if (!tag_filter(member.value)) return false;
        selection.tag_filter = member.value.text;
      } else if (member.key == "metrics") {
        has_metrics = true;
        if (!metrics(member.value, "metrics", true, period.value_or(inherited),
                     selection.metrics)) {
          return false;
        }
      } else {
        unknown(member, "\"tag_filter\", \"period\" and \"metrics\"");
      }
    }
    if (!has_metrics) {
      return refuse(node,
                    "this runtime has no \"metrics\"; expected an array of objects such as "
                    "{\"type\": \"execution_stats\"}");
    }
    out_.runtimes.push_back(std::move(selection));
    return true;
  }

  bool tag_filter(const JsonNode& node) {
    if (node.kind != Kind::kString) {
      return refuse(node,
                    "\"tag_filter\" must be a string with a regular expression such as "
                    "\".*\", found " +
                        node.description());
    }
    try {
      const boost::regex compiled(node.text, boost::regex::perl);
    } catch (const std::exception& error) {
      return refuse(
          node, "\"tag_filter\": \"" + node.text + "\" is no regular expression: " + error.what());
    }
    return true;
  }

  bool metrics(const JsonNode& node, const char* key, bool of_runtimes, Duration inherited,
               std::vector<Metric>& out) {
    if (!array(node, key, "objects with \"type\"")) return false;
    for (const JsonNode& element : node.elements) {
      if (!metric(element, of_runtimes, inherited, out)) return false;
    }
    return true;
  }

  bool metric(const JsonNode& node, bool of_runtimes, Duration inherited,
              std::vector<Metric>& out) {
    if (node.kind != Kind::kObject) {
      return refuse(node, "a metric must be an object such as {\"type\": \"" +
                              std::string(of_runtimes ? "execution_stats" : "vcpu_usage") +
                              "\"}, found " + node.description());
    }
    std::optional<Duration> period;
    if (!own_period(node, period)) return false;
    std::optional<Group> group;
    const JsonNode* type = &node;
    for (const JsonNode::Member& member : node.members) {
      if (member.key == "period") continue;
      if (member.key != "type") {
        unknown(member, "\"type\" and \"period\"");
        continue;
      }
      type = &member.value;
      if (!metric_type(member.value, of_runtimes, group)) return false;
    }
    if (!group) return refuse(node, "this metric has no \"type\"; expected " + names(of_runtimes));
    for (const Metric& other : out) {
      if (other.group == *group) {
        return refuse(*type, "\"" + std::string(name(*group)) + "\" is there twice; one must go");
      }
    }
    out.push_back({*group, period.value_or(inherited)});
    return true;
  }

  bool metric_type(const JsonNode& node, bool of_runtimes, std::optional<Group>& group) {
    const std::string expected = "expected one of " + names(of_runtimes);
    if (node.kind != Kind::kString) {
      return refuse(node,
                    "\"type\" must be a string, found " + node.description() + "; " + expected);
    }
    std::string text = node.text;
    if (of_runtimes && text == "inference_stats") {
      text = "execution_stats";
      warn(node.line, node.column,
           "\"inference_stats\" is the old name of \"execution_stats\", which is reported");
    }
    for (unsigned i = 0; i < kGroups; ++i) {
      const auto candidate = static_cast<Group>(i);
      if (text != kNames[i]) continue;
      if (of_runtime(candidate) != of_runtimes) {
        return refuse(node, "\"" + text + "\" belongs into " +
                                (of_runtimes ? "\"system_metrics\"" : "\"neuron_runtimes\"") +
                                "; " + expected + " here");
      }
      group = candidate;
      return true;
    }
    return refuse(node, "\"" + text + "\" is no type of metric; " + expected);
  }

  bool k8s(const JsonNode& node, Duration inherited) {
    std::optional<Duration> period;
    if (node.kind == Kind::kObject) {
      if (!own_period(node, period)) return false;
      for (const JsonNode::Member& member : node.members) {
        if (member.key != "period") unknown(member, "\"period\"");
      }
    } else if (node.kind != Kind::kBoolean) {
      return refuse(node, "\"k8s_info\" must be true, false or an object with \"period\", found " +
                              node.description());
    }
    if (node.kind == Kind::kObject || node.boolean) out_.k8s_period = period.value_or(inherited);
    return true;
  }

  const std::string& file_;
  Configuration& out_;
  std::string error_;
};

}  // namespace

std::string_view name(Group group) { return kNames[static_cast<unsigned>(group)]; }

Configuration default_configuration() {
  Configuration out;
  RuntimeSelection& all = out.runtimes.emplace_back();
  for (unsigned i = 0; i < kGroups; ++i) {
    const auto group = static_cast<Group>(i);
    (of_runtime(group) ? all.metrics : out.system_metrics).push_back({group, kDefaultPeriod});
  }
  return out;
}

std::optional<Configuration> parse_configuration(std::string_view text, const std::string& file,
                                                 std::string& error) {
  const auto tree = parse_json(text, error);
  if (!tree) {
    error = file + ":" + error;
    return std::nullopt;
  }
  Configuration out;
  Reader reader(file, out);
  if (reader.root(*tree)) return out;
  error = reader.error();
  return std::nullopt;
}

std::optional<Configuration> read_configuration(const std::string& file, std::string& error) {
  const auto bytes = tools::read_file(file);
  if (!bytes) {
    error = bytes.error().sentence;
    return std::nullopt;
  }
  return parse_configuration(
      std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size()), file, error);
}

}  // namespace neuron::monitor
