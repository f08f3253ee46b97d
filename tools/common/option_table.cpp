// SPDX-License-Identifier: Apache-2.0
#include "tools/common/option_table.h"

#include <CLI/CLI.hpp>

namespace neuron::tools {
namespace {

// CLI11 puts what a check allows behind the type: "TEXT:{text,json}".
std::vector<std::string> choices_of(const std::string& type) {
  const size_t open = type.find('{');
  const size_t close = type.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return {};
  std::vector<std::string> choices(1);
  for (size_t i = open + 1; i < close; ++i) {
    if (type[i] == ',') {
      choices.emplace_back();
    } else {
      choices.back() += type[i];
    }
  }
  return choices;
}

bool names_a_path(const std::string& name) {
  for (const char* word : {"FILE", "PATH", "DIR", "FOLDER", "NEFF", "INPUT", "SOCKET"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  return false;
}

OptionEntry entry_of(const CLI::Option& option) {
  OptionEntry entry;
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  if (entry.names.empty()) entry.positional = option.get_single_name();
  if (option.get_items_expected_max() != 0) {
    const std::string type = option.get_type_name();
    entry.choices = choices_of(type);
    entry.value = type.substr(0, type.find_first_of(":{ "));
    if (entry.value.empty()) entry.value = "VALUE";
  }
  entry.description = option.get_description();
  entry.standard = option.get_default_str();
  entry.required = option.get_required();
  entry.repeatable = option.get_items_expected_max() > 1;
  entry.is_path = names_a_path(entry.positional.empty() ? entry.value : entry.positional);
  return entry;
}

}  // namespace

CommandEntry option_table(const CLI::App& app) {
  CommandEntry table;
  table.name = app.get_name();
  table.description = app.get_description();
  // An empty group is how CLI11 hides an option or a command.
  for (const CLI::Option* option : app.get_options({})) {
    if (!option->get_group().empty()) table.options.push_back(entry_of(*option));
  }
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); })) {
    table.commands.push_back(option_table(*command));
  }
  return table;
}

}  // namespace neuron::tools
