// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-debug/debugger.h"

#include <algorithm>
#include <cerrno>
#include <ostream>
#include <regex>
#include <sstream>

#include "hw/control.h"
#include "runtime/base/file.h"
#include "tools/common/wait_words.h"
#include "tools/neuron-debug/tile.h"

namespace neuron::debug {
namespace {

using runtime::fail;
using runtime::format;

// Looks without a change, of a few milliseconds each, after which whatever still waits is told.
constexpr unsigned kIdleLooks = 50;
// Looks since the first engine stopped, after which an engine that goes on without an end, as one
// that asks for a semaphore in a loop, is waited for no longer.
constexpr unsigned kMostLooks = 500;
constexpr size_t kListed = 5;  // instructions around a place

}  // namespace

const std::vector<Debugger::Command>& Debugger::commands() {
  static const std::vector<Command> list = {
      {"break", "ENGINE:PC | FILE:LINE | SECTION | semaphore N", "stop in front of an instruction",
       false, &Debugger::add_breakpoint},
      {"delete", "[N]", "remove a breakpoint, or all", false, &Debugger::remove_breakpoint},
      {"run", "", "execute the model once", false, &Debugger::execute},
      {"continue", "", "let all engines go on", true, &Debugger::go_on},
      {"step", "[COUNT] [ENGINE]", "execute so many instructions of the engine that stopped last",
       true, &Debugger::step},
      {"info", "engines | semaphores | breakpoints", "show them", false, &Debugger::info},
      {"print",
       "ENGINE [rN] | semaphore N | sbuf P[:COUNT] OFFSET TYPE COUNT | psum P[:COUNT] OFFSET TYPE "
       "COUNT",
       "show registers, a semaphore, numbers of a tile", false, &Debugger::print},
      {"picture", "sbuf|psum P[:COUNT] OFFSET TYPE COUNT [FILE.png]",
       "show a tile in shades, or write a picture of it", false, &Debugger::picture},
      {"list", "[ENGINE[:PC]]", "show instructions", false, &Debugger::list},
      {"help", "", "show this", false, &Debugger::help},
      {"quit", "", "break the execution off and end", false, &Debugger::quit}};
  return list;
}

// Names out of a NEFF can neither break a line nor command a terminal.
void Debugger::say(const std::string& text) {
  std::istringstream lines(text);
  errno = 0;
  for (std::string line; std::getline(lines, line);) {
    parts_.out << runtime::escaped(line) << (lines.eof() ? "" : "\n");
  }
  parts_.out << std::flush;
  if (!parts_.out && output_error_ == 0) output_error_ = errno;
}

bool Debugger::run() {
  prompt(false);
  return good_;
}

void Debugger::prompt(bool stopped) {
  released_ = false;
  // bounded: until the commands end.
  while (!ended_ && !released_) {
    const std::optional<std::string> line = parts_.next();
    if (!line) {
      ended_ = true;
      if (stopped) run_on();
      return;
    }
    if (const auto done = obey(*line, stopped); !done) {
      good_ = false;
      say(parts_.place() + done.error().sentence + "\n");
    }
  }
}

// The end of the commands lets an execution under way go on to its end: nobody would continue what
// stopped again.
void Debugger::run_on() {
  breakpoints_.clear();
  set_breakpoints();
  if (const auto done = go_on({}); !done) say(done.error().sentence + "\n");
}

Result<void> Debugger::obey(const std::string& line, bool stopped) {
  std::istringstream stream(line.substr(0, line.find('#')));
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.empty()) return {};
  std::vector<const Command*> found;
  for (const Command& command : commands()) {
    if (std::string(command.name) == words[0]) {
      found = {&command};
      break;
    }
    if (std::string(command.name).rfind(words[0], 0) == 0) found.push_back(&command);
  }
  if (found.empty()) return fail(NRT_INVALID, "there is no command '{}'; try help", words[0]);
  // As in GDB, the first of the list has the short name.
  const Command& command = *found.front();
  if (command.stopped && !stopped) {
    return fail(NRT_INVALID, "nothing is stopped; set a breakpoint, then run");
  }
  words.erase(words.begin());
  return (this->*command.act)(words);
}

bool Debugger::look() {
  bool stopped = false, runs = false;
  std::string states;
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const auto state = target_.state(engine);
    if (!state) return false;
    stopped = stopped || state->stopped();
    runs = runs || state->state == NEURON_STATE_RUNNING;
    states += format("{} {} {} {};", state->state, state->at.pc, state->waiting, state->time_ps);
  }
  // Engines that run, or transfers, may still change what the others wait for.
  looks_ = states == last_states_ ? looks_ + 1 : 0;
  last_states_ = states;
  looks_stopped_ = stopped ? looks_stopped_ + 1 : 0;
  const bool settled = looks_ >= (runs ? kIdleLooks : 2);
  if (ended_) {
    // Met before the breakpoints were gone. What `quit` aborts stays.
    if (stopped && !quit_) run_on();
    return stopped;
  }
  if (!stopped || (!settled && looks_stopped_ < kMostLooks)) return stopped;
  looks_ = looks_stopped_ = 0;
  tell_stops();
  prompt(true);
  return true;
}

void Debugger::failed() {
  if (quit_) return;
  failed_ = true;
  say("The execution has failed. The core is as the failure left it:\n");
  (void)info({"engines"});
  prompt(true);
}

std::string Debugger::place_text(const Place& place) const {
  if (!target_.has(place)) return format("{} pc {}", isa::engine_name(place.engine), place.pc);
  const std::string line = target_.line(place);
  return format("{} pc {}{}{}: {}", isa::engine_name(place.engine), place.pc,
                line.empty() ? "" : ", ", line, target_.text(place));
}

std::string Debugger::words_of(const EngineState& state) const {
  switch (state.state) {
    case NEURON_STATE_IDLE:
      return "idle";
    case NEURON_STATE_RUNNING:
      return "runs";
    case NEURON_STATE_WAITING:
      return tools::words_of_wait(state.waiting, state.wait_value,
                                  [&](uint32_t number) { return target_.semaphore_name(number); });
    case NEURON_STATE_HALTED:
      return "has halted";
    case NEURON_STATE_STOPPED:
      return "stopped";
    case NEURON_STATE_BREAK:
      return "at a breakpoint";
    case NEURON_STATE_FAULT:
      return "has a fault";
    default:
      return "?";
  }
}

void Debugger::tell_stops() {
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const auto state = target_.state(engine);
    if (!state || !state->stopped()) continue;
    engine_ = engine;
    std::string numbers;
    for (const Breakpoint& point : breakpoints_) {
      if (std::find(point.places.begin(), point.places.end(), state->at) == point.places.end()) {
        continue;
      }
      numbers += format("breakpoint {}, ", point.number);
    }
    say(numbers + place_text(state->at) + "\n");
  }
}

Result<void> Debugger::help(const Words&) {
  for (const Command& command : commands()) {
    say(format("{} {}\n    {}\n", command.name, command.usage, command.help));
  }
  return {};
}

Result<unsigned> Debugger::semaphore_of(const std::string& word) const {
  if (const auto named = target_.semaphore_number(word)) return *named;
  const auto number = number_of(word);
  if (!number || *number >= NEURON_SEMAPHORES) {
    return fail(NRT_INVALID, "there is no semaphore '{}'", word);
  }
  return *number;
}

Result<std::vector<Place>> Debugger::places_of_semaphore(const std::string& name) const {
  NEURON_TRY(number, semaphore_of(name));
  std::vector<Place> places;
  std::array<size_t, NEURON_CORE_ENGINES> counts{};
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    for (uint32_t pc = 0; pc < target_.instructions(engine); ++pc) {
      const isa::Instruction i = target_.instruction({engine, pc});
      bool touches = false;
      for (const isa::Wait& wait : i.wait) {
        touches |= wait.condition != NEURON_WAIT_NONE && !wait.event && wait.index == number;
      }
      for (const isa::Update& update : i.update) {
        touches |= update.operation != NEURON_UPDATE_NONE &&
                   update.operation < NEURON_UPDATE_EVENT_SET && update.index == number;
      }
      if (touches && counts[engine]++ < Target::kMostBreakpoints) places.push_back({engine, pc});
    }
  }
  return places;
}

Result<std::vector<Place>> Debugger::places_of(const Words& words) const {
  if (words.size() == 2 && words[0] == "semaphore") return places_of_semaphore(words[1]);
  if (words.size() != 1) {
    return fail(NRT_INVALID, "expected ENGINE:PC, FILE:LINE, a section, or semaphore N");
  }
  const std::string& word = words[0];
  const size_t colon = word.rfind(':');
  if (colon != std::string::npos) {
    if (const auto engine = engine_named(word.substr(0, colon))) {
      NEURON_TRY(pc, number_of(word.substr(colon + 1)));
      if (!target_.has({*engine, pc})) {
        return fail(NRT_INVALID, "{} has {} instructions", isa::engine_name(*engine),
                    target_.instructions(*engine));
      }
      return std::vector<Place>{{*engine, pc}};
    }
  }
  return target_.first_places([&](const Place& place) {
    const std::string line = target_.line(place);
    const bool same_line =
        line == word || (line.size() > word.size() && line.ends_with("/" + word));
    return same_line || target_.section(place) == word || line.substr(0, line.rfind(':')) == word;
  });
}

Result<void> Debugger::add_breakpoint(const Words& words) {
  NEURON_TRY(places, places_of(words));
  std::string what;
  for (const std::string& word : words) what += (what.empty() ? "" : " ") + word;
  if (places.empty()) return fail(NRT_INVALID, "no instruction belongs to '{}'", what);
  std::array<size_t, NEURON_CORE_ENGINES> counts{};
  for (const Place& place : places) ++counts[place.engine];
  for (const Breakpoint& point : breakpoints_) {
    for (const Place& place : point.places) ++counts[place.engine];
  }
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    if (counts[engine] <= Target::kMostBreakpoints) continue;
    return fail(NRT_INVALID, "{} would have {} breakpoints, and can have {}; delete some",
                isa::engine_name(engine), counts[engine], Target::kMostBreakpoints);
  }
  breakpoints_.push_back({next_number_++, what, places});
  for (const Place& place : places) {
    say(format("breakpoint {}: {}\n", breakpoints_.back().number, place_text(place)));
  }
  set_breakpoints();
  return {};
}

Result<void> Debugger::remove_breakpoint(const Words& words) {
  if (words.empty()) {
    breakpoints_.clear();
  } else {
    NEURON_TRY(number, number_of(words[0]));
    if (std::erase_if(breakpoints_, [&](const auto& b) { return b.number == number; }) == 0) {
      return fail(NRT_INVALID, "there is no breakpoint {}", number);
    }
  }
  set_breakpoints();
  return {};
}

// Those of an execution under way; begins() sets them for the next one.
void Debugger::set_breakpoints() {
  std::vector<Place> places;
  for (const Breakpoint& point : breakpoints_) {
    places.insert(places.end(), point.places.begin(), point.places.end());
  }
  if (const auto done = target_.set_breakpoints(places); !done) say(done.error().sentence + "\n");
}

Result<void> Debugger::execute(const Words&) {
  if (running_) return fail(NRT_INVALID, "an execution is under way; continue it, or quit");
  // bounded: the second turn stops in front of the NaN.
  for (bool again = true; again;) {
    again = false;
    running_ = true;
    failed_ = false;
    const auto done = parts_.execute();
    running_ = false;
    if (quit_ && !failed_) {
      say("the execution is broken off\n");
    } else if (done) {
      say("the execution has ended\n");
    } else {
      say(done.error().sentence + "\n");
      again =
          parts_.break_on_nan && !ended_ && done.error().status == NRT_EXEC_COMPLETED_WITH_NUM_ERR;
      if (again) break_at_nan(done.error().sentence);
    }
  }
  // The prompt of the execution has read commands to its end.
  released_ = false;
  return {};
}

// Executions repeat to the bit, so the next one meets the instruction again. It stops there once.
void Debugger::break_at_nan(const std::string& sentence) {
  parts_.break_on_nan = false;
  std::smatch match;
  const std::regex place("([A-Za-z]+) pc ([0-9]+)");
  if (!std::regex_search(sentence, match, place)) return;
  const auto engine = engine_named(match[1]);
  if (!engine) return;
  say("again, up to this instruction:\n");
  breakpoints_.push_back(
      {next_number_++, "the NaN", {{*engine, static_cast<int64_t>(std::stoul(match[2]))}}});
}

Result<void> Debugger::go_on(const Words&) {
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    NEURON_TRY(state, target_.state(engine));
    if (state.stopped()) NEURON_CHECK(target_.command(engine, NEURON_CMD_CONTINUE));
  }
  released_ = true;
  return {};
}

Result<void> Debugger::step(const Words& words) {
  uint32_t count = 1;
  unsigned engine = engine_;
  for (const std::string& word : words) {
    if (const auto named = engine_named(word)) {
      engine = *named;
      continue;
    }
    NEURON_TRY(number, number_of(word));
    count = number;
  }
  NEURON_TRY(state, target_.state(engine));
  if (!state.stopped()) {
    return fail(NRT_INVALID, "{} is not stopped: it {}", isa::engine_name(engine), words_of(state));
  }
  if (count == 0) return fail(NRT_INVALID, "0 steps lead nowhere");
  NEURON_CHECK(target_.command(engine, NEURON_CMD_STEP, count));
  released_ = true;
  return {};
}

Result<void> Debugger::info(const Words& words) {
  constexpr std::string_view kWhat[] = {"engines", "semaphores", "breakpoints"};
  const std::string word = words.empty() ? "engines" : words[0];
  // Shortened as in GDB: `info b`.
  const auto* found = std::find_if(std::begin(kWhat), std::end(kWhat),
                                   [&](std::string_view what) { return what.starts_with(word); });
  if (found == std::end(kWhat)) {
    return fail(NRT_INVALID, "expected engines, semaphores or breakpoints");
  }
  const std::string_view what = *found;
  if (what == "breakpoints") {
    if (breakpoints_.empty()) say("there are no breakpoints\n");
    for (const Breakpoint& point : breakpoints_) {
      for (const Place& place : point.places) {
        say(format("{} {}: {}\n", point.number, point.what, place_text(place)));
      }
    }
    return {};
  }
  if (what == "semaphores") {
    for (unsigned number = 0; number < NEURON_SEMAPHORES; ++number) {
      NEURON_TRY(value, target_.semaphore(number));
      if (value != 0) say(format("{} = {}\n", target_.semaphore_name(number), value));
    }
    return {};
  }
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    NEURON_TRY(state, target_.state(engine));
    const bool shown = state.state != NEURON_STATE_IDLE && target_.has(state.at);
    say(format("{:<10} {:>12.3f} us  {}{}\n", isa::engine_name(engine),
               static_cast<double>(state.time_ps) * 1e-6, words_of(state),
               shown ? format("; pc {}: {}", state.at.pc, target_.text(state.at)) : ""));
  }
  return {};
}

Result<void> Debugger::print(const Words& words) {
  if (words.empty()) return fail(NRT_INVALID, "print what? See help");
  if (words.size() == 2 && words[0] == "semaphore") {
    NEURON_TRY(number, semaphore_of(words[1]));
    NEURON_TRY(value, target_.semaphore(number));
    say(format("{} = {}\n", target_.semaphore_name(number), value));
    return {};
  }
  if (const auto engine = engine_named(words[0])) {
    constexpr unsigned kRegisters = 64;
    unsigned first = 0, last = kRegisters - 1;
    if (words.size() > 1) {
      NEURON_TRY(number, number_of(words[1][0] == 'r' ? words[1].substr(1) : words[1]));
      if (number >= kRegisters) return fail(NRT_INVALID, "an engine has registers r0 to r63");
      first = last = number;
    }
    for (unsigned number = first; number <= last; ++number) {
      NEURON_TRY(value, target_.register_of(*engine, number));
      if (value == 0 && first != last) continue;
      say(format("{} r{} = {} ({:#x})\n", isa::engine_name(*engine), number, value, value));
    }
    return {};
  }
  NEURON_TRY(tile, read_tile(target_, words));
  for (size_t row = 0; row < tile.rows.size(); ++row) {
    std::string text = format("[{}]", tile.first + row);
    for (const double value : tile.rows[row]) text += format(" {:.9g}", value);
    say(text + "\n");
  }
  return {};
}

Result<void> Debugger::picture(const Words& words) {
  constexpr size_t kOfTile = 5;
  const bool to_file = words.size() == kOfTile + 1;
  NEURON_TRY(tile,
             read_tile(target_, to_file ? std::span(words).first(kOfTile) : std::span(words)));
  if (!to_file) {
    say(text_picture(tile));
    return {};
  }
  NEURON_TRY(png, png_picture(tile));
  NEURON_CHECK(tools::write_file(words[kOfTile], png));
  say(format("{}: {} x {}; {}", words[kOfTile], tile.rows.front().size(), tile.rows.size(),
             png_legend(tile)));
  return {};
}

Result<void> Debugger::list(const Words& words) {
  Place place{engine_, 0};
  if (!words.empty()) {
    const size_t colon = words[0].find(':');
    const auto engine = engine_named(words[0].substr(0, colon));
    if (!engine) return fail(NRT_INVALID, "there is no engine '{}'", words[0]);
    place.engine = *engine;
    if (colon != std::string::npos) {
      NEURON_TRY(pc, number_of(words[0].substr(colon + 1)));
      place.pc = pc;
    }
  }
  if (words.empty() || words[0].find(':') == std::string::npos) {
    NEURON_TRY(state, target_.state(place.engine));
    if (running_ && target_.has(state.at)) place.pc = state.at.pc;
  }
  const int64_t first = std::max<int64_t>(place.pc - static_cast<int64_t>(kListed), 0);
  for (int64_t pc = first; pc <= place.pc + static_cast<int64_t>(kListed); ++pc) {
    const Place one{place.engine, pc};
    if (!target_.has(one)) break;
    say((pc == place.pc ? "> " : "  ") + place_text(one) + "\n");
  }
  return {};
}

Result<void> Debugger::quit(const Words&) {
  quit_ = ended_ = released_ = true;
  for (unsigned engine = 0; running_ && engine < NEURON_CORE_ENGINES; ++engine) {
    NEURON_TRY(state, target_.state(engine));
    if (state.stopped()) return target_.command(engine, NEURON_CMD_ABORT);
  }
  return {};
}

}  // namespace neuron::debug
