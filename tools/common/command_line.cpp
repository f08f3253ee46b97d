// SPDX-License-Identifier: Apache-2.0
#include "tools/common/command_line.h"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

#include "driver/base/format.h"
#include "driver/base/nearest_name.h"
#include "tools/common/option_table.h"
#include "tools/common/output.h"
#include "tools/common/terminal.h"

namespace neuron::tools {
namespace {

constexpr size_t kColumn = 24;

std::string entry(std::string_view name, std::string_view meaning) {
  std::string line = "  " + std::string(name);
  line.append(line.size() < kColumn ? kColumn - line.size() : 2, ' ');
  return line + std::string(meaning) + "\n";
}

// Of a program whose options may stand in the environment: names variables that look like one of
// these, and that no option has.
void warn_of_variables(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_envname().empty()) names.push_back(option->get_envname());
  }
  if (names.empty()) return;
  const std::string program = app.get_name();
  std::string prefix = program + "_";
  for (char& c : prefix) {
    c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  for (const char* const* variable = environ; *variable != nullptr; ++variable) {
    std::string_view name(*variable);
    name = name.substr(0, name.find('='));
    if (!name.starts_with(prefix) || std::find(known.begin(), known.end(), name) != known.end()) {
      continue;
    }
    const std::string_view nearest = base::nearest_name(name, known);
    std::fprintf(stderr, "%s: no option has the variable %s%s\n", program.c_str(),
                 printable(name).c_str(),
                 nearest.empty() ? "" : ("; is " + std::string(nearest) + " meant?").c_str());
  }
}

// A file that may not grow ends the write with EFBIG, about which there is a sentence, and not the
// program. A handler, because the programs that this one starts do not inherit it; who started this
// program may have ignored the signal.
void survive_limits() {
  struct sigaction action = {};
  if (::sigaction(SIGXFSZ, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGXFSZ, &action, nullptr);
}

// The text of --help behind the options.
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

// Letters that a name of an option or of a command may differ in from what was meant.
constexpr base::Nearness kNear{.most = 2, .written = 1, .known = 3};

// The long option, of the program or of the given command, that is most like `word`; empty if none
// is.
std::string meant(const CLI::App& app, std::string_view word) {
  std::vector<std::string_view> names;
  std::vector<const CLI::App*> given{&app};
  for (const CLI::App* command : app.get_subcommands()) given.push_back(command);
  for (const CLI::App* level : given) {
    for (const CLI::Option* option : level->get_options()) {
      if (option->get_group().empty()) continue;  // hidden options
      for (const std::string& known : option->get_lnames()) names.push_back(known);
    }
  }
  if (word.starts_with("--")) word.remove_prefix(2);
  const std::string_view nearest = base::nearest_name(word.substr(0, word.find('=')), names, kNear);
  return nearest.empty() ? "" : "--" + std::string(nearest);
}

// The command at this level that is most like `word`; empty if none is.
std::string meant_command(const CLI::App& level, const std::string& word) {
  std::vector<std::string_view> names;
  for (const CLI::App* command : level.get_subcommands({})) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return std::string(base::nearest_name(word, names, kNear));
}

// The first word that is no option and that nobody expected.
std::string unknown_word(const CLI::App& app) {
  for (const std::string& word : app.remaining(true)) {
    if (!word.starts_with('-')) return word;
  }
  return {};
}

// Which command is missing or unknown: "there is no command \"inof\"; it is one of info, unpack".
std::string about_commands(const CLI::App& app) {
  const CLI::App* level = &app;
  while (!level->get_subcommands().empty()) level = level->get_subcommands().front();
  std::string known;
  for (const CLI::App* command : level->get_subcommands({})) {
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  const std::string unknown = unknown_word(app);
  return (unknown.empty() ? "a command is missing" : "there is no command \"" + unknown + "\"") +
         "; it is one of " + known;
}

// "--jsn file", as it was written; "" if all is known.
std::string unexpected(const CLI::App& app) {
  std::string words;
  for (const std::string& word : app.remaining(true)) words += (words.empty() ? "" : " ") + word;
  return words;
}

// The file that the option of options_file() was given; empty: none.
std::string options_file_of(const CLI::App& app) {
  const CLI::Option* option = const_cast<CLI::App&>(app).get_config_ptr();
  return option != nullptr && option->count() > 0 ? option->results().back() : "";
}

bool is_number(const std::string& text) {
  char* end = nullptr;
  (void)std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}

// Not "2.5" or "1e3".
bool is_whole(const std::string& text) {
  const size_t digits = text.find_first_not_of("+-");
  return digits != std::string::npos &&
         (text.compare(digits, 2, "0x") == 0 ||
          text.find_first_not_of("0123456789", digits) == std::string::npos);
}

// What is wrong with a text that the library could not convert to a number.
std::string unconverted(const std::string& text) {
  if (!is_number(text)) return '"' + text + "\" is no number";
  return text +
         (is_whole(text) ? " is too large or too small" : " is not written as a whole number");
}

// "neuron-ls: The following argument was not expected: --jsn; did you mean --json-output? ..."
std::string complaint(const CLI::App* app, const CLI::Error& error) {
  std::string what = error.what();
  if (what == "A subcommand is required") what = about_commands(*app);
  const std::string unknown = unexpected(*app);
  // Whoever misspells an option that is required wants to hear of the spelling.
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
      (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && unknown.starts_with("--"))) {
    const bool several = unknown.find(' ') != std::string::npos;
    what = (several ? "The following arguments were not expected: "
                    : "The following argument was not expected: ") +
           unknown;
    const size_t option = (" " + unknown).find(" --");
    const std::string word = option != std::string::npos
                                 ? unknown.substr(option, unknown.find(' ', option) - option)
                                 : "";
    // Of a program that can do without a command, a command that is misspelt is a word too many.
    const std::string other = !word.empty() ? meant(*app, word)
                              : app->get_subcommands().empty()
                                  ? meant_command(*app, unknown_word(*app))
                                  : "";
    if (!other.empty() && other == word.substr(0, word.find('='))) {
      what += "; " + other + " stands before the command";
    } else if (!other.empty()) {
      what += "; did you mean " + other + "?";
    }
  }
  // "Could not convert: --nworkers = x": the library converts texts to numbers only.
  if (constexpr std::string_view kBegin = "Could not convert: ";
      dynamic_cast<const CLI::ConversionError*>(&error) != nullptr && what.starts_with(kBegin)) {
    const size_t sign = what.find(" = ");
    const std::string value = what.substr(std::min(what.size(), sign + 3));
    what = what.substr(kBegin.size(), sign - kBegin.size()) + ": " + unconverted(value);
  }
  // The library names neither the file nor what it expects in it.
  if (const std::string file = options_file_of(*app); !file.empty()) {
    if (dynamic_cast<const CLI::FileError*>(&error) != nullptr) {
      what = "the file of options '" + file + "' cannot be read";
    } else if (dynamic_cast<const CLI::ConfigError*>(&error) != nullptr) {
      const std::string word = what.substr(what.rfind(' ') + 1);
      what = "the file of options '" + file + "': '" + word +
             "' is no option; expected lines of name = value, with names of --help without --";
    }
  }
  return app->get_name() + ": " + what + "\n" + app->get_name() + " --help says what there is.\n";
}

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

template <class Value>
constexpr bool holds_whole_numbers() {
  if constexpr (requires { typename Value::value_type; }) {
    return std::is_integral_v<typename Value::value_type> && !std::is_same_v<Value, std::string>;
  }
  return std::is_integral_v<Value>;
}

// The library takes the nearest number that fits in the place of one that does not.
CLI::Validator fits_64_bits() {
  return CLI::Validator(
      [](std::string& text) {
        errno = 0;
        if (text.starts_with('-')) {
          (void)std::strtoll(text.c_str(), nullptr, 0);
        } else {
          (void)std::strtoull(text.c_str(), nullptr, 0);
        }
        return errno == ERANGE ? text + " does not fit in 64 bits" : std::string();
      },
      "");
}

// What the library says in help and manuals of such a value, with sentences of our own.
template <class Number>
CLI::Validator within(Number least, Number most) {
  const CLI::Range range(least, most);
  return CLI::Validator(
      [range, least, most](std::string& text) {
        if (range(text).empty()) return std::string();
        if (std::is_integral_v<Number> && is_number(text) && !is_whole(text)) {
          return base::format("{} is not written as a whole number; give one from {} to {}", text,
                              least, most);
        }
        return is_number(text)
                   ? base::format("{} is not in the range from {} to {}", text, least, most)
                   : base::format("\"{}\" is no number; give one from {} to {}", text, least, most);
      },
      range.get_description());
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

CommandEntry table_of(const CLI::App& app) {
  CommandEntry table;
  table.name = app.get_name();
  table.description = app.get_description();
  // An empty group is how CLI11 hides an option or a command.
  for (const CLI::Option* option : app.get_options({})) {
    if (!option->get_group().empty()) table.options.push_back(entry_of(*option));
  }
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); })) {
    table.commands.push_back(table_of(*command));
  }
  return table;
}

}  // namespace

Option& Option::between(int least, int most) {
  option_->check(within(least, most));
  return *this;
}
Option& Option::between(uint32_t least, uint32_t most) {
  option_->check(within(least, most));
  return *this;
}
Option& Option::between(size_t least, size_t most) {
  option_->check(within(least, most));
  return *this;
}
Option& Option::between(double least, double most) {
  option_->check(within(least, most));
  return *this;
}
Option& Option::one_of(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return *this;
}
Option& Option::judged_by(Judge judge) {
  option_->check(std::move(judge));
  return *this;
}
Option& Option::bytes_with_unit() {
  const CLI::AsSizeValue read(false);
  CLI::Validator size = read;
  size.operation([read](std::string& text) {
    const std::string given = text;
    try {
      if (read(text).empty()) return std::string();
    } catch (const CLI::ValidationError&) {  // an unknown unit, too
    }
    return base::format("\"{}\" is no size; give a number with an optional unit, such as KB or MB",
                        given);
  });
  option_->transform(size);
  return *this;
}
Option& Option::required() {
  option_->required();
  return *this;
}
Option& Option::values(int least, int most) {
  option_->expected(least, most);
  return *this;
}
Option& Option::repeatable() {
  option_->allow_extra_args(false);
  return *this;
}
Option& Option::last_wins() {
  option_->take_last();
  return *this;
}
Option& Option::separated_by(char separator) {
  option_->delimiter(separator);
  return *this;
}
Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}
Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}
Option& Option::or_variable(const char* name) {
  option_->envname(name);
  return *this;
}
Option& Option::value_name(const char* name) {
  option_->type_name(name);
  return *this;
}
Option& Option::with_default() {
  option_->capture_default_str();
  return *this;
}
Option& Option::with_default(const std::string& text) {
  option_->default_str(text);
  return *this;
}
Option& Option::hidden() {
  option_->group("");
  return *this;
}
bool Option::given() const { return option_->count() != 0; }

template <class Value>
Option Command::option(const std::string& names, Value& value, const std::string& description) {
  CLI::Option* option = app_->add_option(names, value, description);
  if constexpr (holds_whole_numbers<Value>()) option->check(fits_64_bits());
  return Option(option);
}
template <>
Option Command::option(const std::string& names, std::optional<double>& value,
                       const std::string& description) {
  return Option(app_->add_option_function<double>(
      names, [&value](double number) { value = number; }, description));
}
template Option Command::option(const std::string&, std::string&, const std::string&);
template Option Command::option(const std::string&, int&, const std::string&);
template Option Command::option(const std::string&, int64_t&, const std::string&);
template Option Command::option(const std::string&, uint32_t&, const std::string&);
template Option Command::option(const std::string&, uint64_t&, const std::string&);
template Option Command::option(const std::string&, float&, const std::string&);
template Option Command::option(const std::string&, double&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::option(const std::string&, std::vector<int>&, const std::string&);
template Option Command::option(const std::string&, std::vector<uint32_t>&, const std::string&);
template Option Command::option(const std::string&, std::vector<uint64_t>&, const std::string&);

Option Command::flag(const std::string& names, bool& value, const std::string& description) {
  return Option(app_->add_flag(names, value, description));
}

Option Command::parsed(const std::string& name, Judge read, const std::string& description) {
  return Option(app_->add_option_function<std::string>(
      name,
      [name, read = std::move(read)](const std::string& text) {
        const std::string against = read(text);
        if (!against.empty()) throw CLI::ValidationError(name, against);
      },
      description));
}

Option Command::choice(const std::string& name, const std::vector<std::string>& words,
                       size_t standard, std::function<void(size_t)> use,
                       const std::string& description) {
  CLI::Option* const option = app_->add_option_function<std::string>(
      name,
      [words, use = std::move(use)](const std::string& word) {
        use(static_cast<size_t>(std::find(words.begin(), words.end(), word) - words.begin()));
      },
      description);
  return Option(option).one_of(words).with_default(words.at(standard));
}

Command Command::command(const std::string& name, const std::string& description) {
  return Command(app_->add_subcommand(name, description));
}
void Command::needs_command() { app_->require_subcommand(1); }
void Command::options_anywhere() { app_->fallthrough(); }
void Command::on_use(std::function<void()> action) { app_->callback(std::move(action)); }
bool Command::given(const std::string& option_name) const { return app_->count(option_name) != 0; }
bool Command::used(const std::string& command_name) const {
  return app_->got_subcommand(command_name);
}
std::string Command::used_command() const {
  const auto commands = app_->get_subcommands();
  return commands.empty() ? std::string() : commands.front()->get_name();
}

CommandLine::CommandLine(Manual manual)
    : Command(nullptr), owned_(std::make_unique<CLI::App>()), manual_(std::move(manual)) {
  app_ = owned_.get();
}
CommandLine::~CommandLine() = default;

Option CommandLine::options_file(const std::string& name, const std::string& description) {
  app_->allow_config_extras(CLI::config_extras_mode::error);
  return Option(app_->set_config(name, "", description));
}

// Called last, so that --version comes after the options of the program.
void CommandLine::describe() {
  if (std::exchange(described_, true)) return;
  std::string sentence(manual_.summary);
  if (!sentence.empty()) {
    sentence.front() =
        static_cast<char>(std::toupper(static_cast<unsigned char>(sentence.front())));
  }
  app_->name(std::string(manual_.name));
  app_->description(sentence + ".");
  app_->footer(footer(manual_));
  app_->failure_message(complaint);
  app_->set_version_flag("--version", std::string(manual_.name) + " " NEURON_PROJECT_VERSION,
                         "print the version and exit");
}

std::string CommandLine::generate(const std::string& what) {
  describe();
  const CommandEntry table = table_of(*app_);
  if (what == "man") return manual_page(table, manual_);
  if (what == "bash") return bash_completion(table);
  if (what == "zsh") return zsh_completion(table);
  if (what == "fish") return fish_completion(table);
  return {};
}

std::optional<CommandLine::Answer> CommandLine::read(const std::vector<std::string>& words) {
  survive_limits();
  describe();
  if (words.size() == 2 && words[0] == "--generate") {
    const std::string text = generate(words[1]);
    if (!text.empty()) return Answer{kDone, text, {}};
    return Answer{
        kWrongUsage,
        {},
        app_->get_name() + ": --generate " + words[1] + ": give man, bash, zsh or fish\n"};
  }
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, wrong;
    const int status = app_->exit(error, out, wrong) == 0 ? kDone : kWrongUsage;
    return Answer{status, out.str(), wrong.str()};
  }
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
  const auto answer = read({argv + std::min(argc, 1), argv + argc});
  if (!answer) {
    warn_of_variables(*app_);
    return std::nullopt;
  }
  std::fputs(answer->error.c_str(), stderr);
  if (answer->status != kDone) return answer->status;
  return print_output(app_->get_name().c_str(), answer->out) ? kDone : kFailed;
}

}  // namespace neuron::tools
