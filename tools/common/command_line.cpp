// SPDX-License-Identifier: Apache-2.0
#include "tools/common/command_line.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <numeric>
#include <vector>

#include "tools/common/option_table.h"
#include "tools/common/output.h"

namespace neuron::tools {
namespace {

constexpr size_t kColumn = 24;

std::string entry(std::string_view name, std::string_view meaning) {
  std::string line = "  " + std::string(name);
  line.append(line.size() < kColumn ? kColumn - line.size() : 2, ' ');
  return line + std::string(meaning) + "\n";
}

// What --help has behind the options.
std::string footer(const Manual& manual) {
  std::string text;
  if (!manual.examples.empty()) text += "Examples:\n";
  for (const ManualTerm& example : manual.examples) {
    text += "  " + std::string(example.name) + "\n";
    if (!example.meaning.empty()) text += "      " + std::string(example.meaning) + "\n";
  }
  if (!manual.environment.empty()) text += "\nEnvironment:\n";
  for (const ManualTerm& term : manual.environment) text += entry(term.name, term.meaning);
  if (!manual.exit_statuses.empty()) text += "\nExit status:\n";
  for (const ExitStatus& status : manual.exit_statuses) {
    text += entry(std::to_string(status.status), status.meaning);
  }
  while (!text.empty() && text.front() == '\n') text.erase(0, 1);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// How many letters have to be put in, taken out or changed.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, changed});
    }
  }
  return row.back();
}

// The long option, of the program or of the command that was given, that somebody may have meant
// with `word`; or nothing.
std::string meant(const CLI::App& app, std::string_view word) {
  std::string best;
  size_t least = 3;
  const std::string_view name = word.substr(0, word.find('='));
  std::vector<const CLI::App*> given{&app};
  for (const CLI::App* command : app.get_subcommands()) given.push_back(command);
  for (const CLI::App* level : given) {
    for (const CLI::Option* option : level->get_options()) {
      if (option->get_group().empty()) continue;  // those that no help mentions
      for (const std::string& known : option->get_lnames()) {
        const size_t far = distance(name, "--" + known);
        if (far < least && far * 3 <= known.size()) {
          least = far;
          best = "--" + known;
        }
      }
    }
  }
  return best;
}

// Which command is missing or unknown: "there is no command \"inof\"; it is one of info, unpack".
std::string about_commands(const CLI::App& app) {
  const CLI::App* level = &app;
  while (!level->get_subcommands().empty()) level = level->get_subcommands().front();
  std::string known;
  for (const CLI::App* command : level->get_subcommands({})) {
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  std::string unknown;
  for (const std::string& word : app.remaining(true)) {
    if (unknown.empty() && !word.starts_with('-')) unknown = word;
  }
  return (unknown.empty() ? "a command is missing" : "there is no command \"" + unknown + "\"") +
         "; it is one of " + known;
}

// "neuron-ls: The following argument was not expected: --jsn; did you mean --json-output? ..."
std::string complaint(const CLI::App* app, const CLI::Error& error) {
  std::string what = error.what();
  if (what == "A subcommand is required") what = about_commands(*app);
  std::string text = app->get_name() + ": " + what;
  const size_t option = what.rfind(" --");
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && option != std::string::npos) {
    const std::string other = meant(*app, std::string_view(what).substr(option + 1));
    if (!other.empty()) text += "; did you mean " + other + "?";
  }
  return text + "\n" + app->get_name() + " --help says what there is.\n";
}

}  // namespace

void describe(CLI::App& app, const Manual& manual) {
  std::string sentence(manual.summary);
  if (!sentence.empty()) {
    sentence.front() =
        static_cast<char>(std::toupper(static_cast<unsigned char>(sentence.front())));
  }
  app.name(std::string(manual.name));
  app.description(sentence + ".");
  app.footer(footer(manual));
  app.failure_message(complaint);
  app.set_version_flag("--version", std::string(manual.name) + " " NEURON_PROJECT_VERSION,
                       "print the version and exit");
}

std::string generate(const CLI::App& app, const Manual& manual, const std::string& what) {
  const CommandEntry table = option_table(app);
  if (what == "man") return manual_page(table, manual);
  if (what == "bash") return bash_completion(table);
  if (what == "zsh") return zsh_completion(table);
  if (what == "fish") return fish_completion(table);
  return {};
}

std::optional<int> parse_command_line(CLI::App& app, const Manual& manual, int argc, char** argv) {
  describe(app, manual);
  if (argc == 3 && std::string_view(argv[1]) == "--generate") {
    const std::string text = generate(app, manual, argv[2]);
    if (text.empty()) {
      std::fprintf(stderr, "%s: --generate %s: give man, bash, zsh or fish\n",
                   app.get_name().c_str(), argv[2]);
      return kWrongUsage;
    }
    return print_output(app.get_name().c_str(), text) ? kDone : kFailed;
  }
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return kWrongUsage;
    return finish_output(app.get_name().c_str()) ? kDone : kFailed;
  }
}

}  // namespace neuron::tools
