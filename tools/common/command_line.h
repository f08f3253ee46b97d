// SPDX-License-Identifier: Apache-2.0
//
// The options, arguments and commands of a program, read in the same way by all programs.
//
// Concepts: a program declares what it takes on a CommandLine, which writes the values into the
// program's own variables. Help goes to standard output with exit status 0, a sentence about wrong
// usage to standard error with exit status 2. Every program has --help and --version. The build
// calls --generate man|bash|zsh|fish, which no help mentions, to write the manual page and the
// completions from the same declarations. Whoever reads arguments survives SIGXFSZ from then on:
// a write behind a limit of file sizes fails with EFBIG.
// Callers: main() of each program. Thread-safe: no. The variables must outlive the CommandLine.
// CLI11 is compiled in command_line.cpp only: it costs five seconds in each file that includes it.
#ifndef TOOLS_COMMON_COMMAND_LINE_H
#define TOOLS_COMMON_COMMAND_LINE_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/exit_status.h"
#include "tools/common/manual.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace neuron::tools {

// Checks the text of a value; returns a sentence that refuses it, or empty.
using Judge = std::function<std::string(const std::string& text)>;

// One declared option or argument. A handle: copies mean the same option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  // The values allowed. For a list, each element is checked.
  Option& between(int least, int most);
  Option& between(uint32_t least, uint32_t most);
  Option& between(size_t least, size_t most);
  Option& between(double least, double most);
  Option& one_of(const std::vector<std::string>& words);
  Option& judged_by(Judge judge);
  Option& bytes_with_unit();  // "64MB" is read as the number of bytes

  // How often the option may be given, and with which other options.
  Option& required();
  Option& values(int least, int most);  // for each time that the option is given
  Option& repeatable();                 // a list that gets one value each time
  Option& last_wins();
  Option& separated_by(char separator);
  Option& excludes(const Option& other);
  Option& needs(const Option& other);
  Option& or_variable(const char* name);  // of the environment, if the option is not given

  // How help and manual show it.
  Option& value_name(const char* name);
  Option& with_default();  // the present value of its variable
  Option& with_default(const std::string& text);
  Option& hidden();

  bool given() const;

 private:
  CLI::Option* option_;
};

// A program, or one of its commands ("unpack"). A handle, as Option is.
class Command {
 public:
  // `names` is "-w,--wide"; a name without a dash declares an argument. Instantiated for string,
  // int, int64_t, uint32_t, uint64_t, float, double, optional<double>, and vectors of string, int,
  // uint32_t and uint64_t.
  template <class Value>
  Option option(const std::string& names, Value& value, const std::string& description = {});
  Option flag(const std::string& names, bool& value, const std::string& description = {});
  // An option whose text `read` converts, unless it returns a sentence that refuses the text.
  Option parsed(const std::string& name, Judge read, const std::string& description);
  // One of `words`; `use` gets its number. The default that is shown has the number `standard`.
  Option choice(const std::string& name, const std::vector<std::string>& words, size_t standard,
                std::function<void(size_t)> use, const std::string& description);

  Command command(const std::string& name, const std::string& description);
  void needs_command();  // one of those declared must be given
  // Options of the program may also stand behind the name of a command.
  void options_anywhere();
  // `action` is called once the arguments have been read, if the command is among them.
  void on_use(std::function<void()> action);

  bool given(const std::string& option_name) const;
  bool used(const std::string& command_name) const;
  std::string used_command() const;  // the first one

 protected:
  explicit Command(CLI::App* app) : app_(app) {}
  CLI::App* app_;
};

class CommandLine : public Command {
 public:
  explicit CommandLine(Manual manual);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Lets a file of lines "name = value" hold the options, too. Unknown names in it are refused.
  Option options_file(const std::string& name, const std::string& description);

  // Reads the arguments. Returns the status to exit with at once; empty if the program goes on.
  std::optional<int> parse(int argc, char** argv);

  // As parse(), but returns the text, for a program that decides itself where to print.
  struct Answer {
    int status = kDone;
    std::string out, error;
  };
  std::optional<Answer> read(const std::vector<std::string>& words);

  // The output of --generate WHAT; empty: WHAT is unknown.
  std::string generate(const std::string& what);

 private:
  void describe();

  std::unique_ptr<CLI::App> owned_;
  Manual manual_;
  bool described_ = false;
};

}  // namespace neuron::tools

#endif
