// SPDX-License-Identifier: Apache-2.0
//
// The commands of neuron-debug, one a line, from a script or from standard input.
//
// Concepts: commands before `run` prepare; `run` executes the model once, and while engines are
// stopped in it, the following commands are read until one lets them go on, or until they end.
// Callers: main(). One thread. Borrows the model. Fails: a command that is wrong says so and
// changes nothing; in a script it also ends the program with status 1.
#ifndef TOOLS_NEURON_DEBUG_DEBUGGER_H
#define TOOLS_NEURON_DEBUG_DEBUGGER_H

#include <functional>
#include <iosfwd>

#include "runtime/debug/target.h"
#include "runtime/debug/watched_model.h"

namespace neuron::debug {

using Words = std::vector<std::string>;

class Debugger final : public runtime::LaunchDebugger {
 public:
  // `execute`: one execution of the model. `next`: the next command, or nothing at the end.
  // `place`: where the last one stands, "commands:3: ", or "" where somebody types them.
  struct Parts {
    std::function<Result<void>()> execute;
    std::function<std::optional<std::string>()> next;
    std::function<std::string()> place;
    std::ostream& out;
    bool break_on_nan = false;
  };
  Debugger(const runtime::LoadedModel& model, Parts parts)
      : target_(model), parts_(std::move(parts)) {}

  // Until `quit` or the end of the commands. False: a command was wrong.
  bool run();
  // The errno value of the first output that failed; 0: none has.
  int output_error() const { return output_error_; }

  void begins() override { set_breakpoints(); }
  bool look() override;
  void failed() override;

 private:
  struct Breakpoint {
    unsigned number = 0;
    std::string what;
    std::vector<Place> places;
  };
  struct Command {
    const char* name;
    const char* usage;
    const char* help;
    bool stopped;  // only while engines are stopped
    Result<void> (Debugger::*act)(const Words&);
  };
  static const std::vector<Command>& commands();

  // Reads commands until one lets the engines go on (`stopped`), or for ever.
  void prompt(bool stopped);
  Result<void> obey(const std::string& line, bool stopped);
  void run_on();
  void say(const std::string& text);
  void tell_stops();
  void set_breakpoints();

  Result<void> help(const Words& words);
  Result<void> add_breakpoint(const Words& words);
  Result<void> remove_breakpoint(const Words& words);
  Result<void> execute(const Words& words);
  Result<void> go_on(const Words& words);
  Result<void> step(const Words& words);
  Result<void> info(const Words& words);
  Result<void> print(const Words& words);
  Result<void> picture(const Words& words);
  Result<void> list(const Words& words);
  Result<void> quit(const Words& words);

  Result<std::vector<Place>> places_of(const Words& words) const;
  Result<std::vector<Place>> places_of_semaphore(const std::string& name) const;
  Result<unsigned> semaphore_of(const std::string& word) const;
  std::string words_of(const EngineState& state) const;
  std::string place_text(const Place& place) const;
  void break_at_nan(const std::string& sentence);

  Target target_;
  Parts parts_;
  std::vector<Breakpoint> breakpoints_;
  unsigned next_number_ = 1;
  bool running_ = false;  // an execution is under way
  bool released_ = false, good_ = true;
  int output_error_ = 0;
  bool ended_ = false;          // there are no more commands
  bool quit_ = false;           // the last one was `quit`
  bool failed_ = false;         // the execution, by itself
  unsigned engine_ = 0;         // that stopped last
  std::string last_states_;     // of the last look, to see whether anything advances
  unsigned looks_ = 0;          // since they changed
  unsigned looks_stopped_ = 0;  // since an engine stopped
};

}  // namespace neuron::debug

#endif
