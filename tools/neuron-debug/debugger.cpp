// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-debug/debugger.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <ostream>
#include <regex>
#include <sstream>

#include "hw/control.h"

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

Result<uint32_t> number_of(const std::string& word) {
  uint32_t value = 0;
  const bool hexadecimal = word.rfind("0x", 0) == 0;
  const char* begin = word.data() + (hexadecimal ? 2 : 0);
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(begin, end, value, hexadecimal ? 16 : 10);
  if (error != std::errc() || stop != end || begin == end) {
    return fail(NRT_INVALID, "'{}' is no number", word);
  }
  return value;
}

struct Type {
  const char* name;
  uint32_t bytes;
};
constexpr Type kTypes[] = {{"f32", 4}, {"bf16", 2}, {"f16", 2}, {"i32", 4}, {"u32", 4},
                           {"i16", 2}, {"u16", 2},  {"i8", 1},  {"u8", 1}};

const Type* type_named(const std::string& name) {
  for (const Type& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

double half(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

double value_of(const Type& type, const uint8_t* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, type.bytes);
  const std::string name = type.name;
  if (name == "f16") return half(bits);
  if (name == "f32" || name == "bf16") {
    if (name == "bf16") bits <<= 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return static_cast<double>(value);
  }
  if (name[0] == 'u') return bits;
  const unsigned unused = 32 - 8 * type.bytes;
  return static_cast<double>(static_cast<int32_t>(bits << unused) >> unused);
}

// Numbers of some partitions: [memory, PARTITION[:COUNT], OFFSET, TYPE, COUNT].
struct Tile {
  uint32_t first = 0;
  std::vector<std::vector<double>> rows;
};

Result<Tile> read_tile(const Target& target, const Words& words) {
  if (words.size() != 5 || (words[0] != "sbuf" && words[0] != "psum")) {
    return fail(NRT_INVALID,
                "expected sbuf or psum, PARTITION[:COUNT], OFFSET, TYPE and COUNT, such as "
                "`sbuf 0:4 0x800 f32 16`");
  }
  const Memory memory = words[0] == "sbuf" ? Memory::kSbuf : Memory::kPsum;
  const size_t colon = words[1].find(':');
  NEURON_TRY(first, number_of(words[1].substr(0, colon)));
  NEURON_TRY(partitions, colon == std::string::npos ? Result<uint32_t>(1u)
                                                    : number_of(words[1].substr(colon + 1)));
  NEURON_TRY(offset, number_of(words[2]));
  const Type* type = type_named(words[3]);
  if (type == nullptr) {
    return fail(NRT_INVALID, "'{}' is no type; expected f32, bf16, f16, or i or u with 8, 16 or 32",
                words[3]);
  }
  NEURON_TRY(count, number_of(words[4]));
  if (first >= NEURON_PARTITIONS || partitions == 0 || partitions > NEURON_PARTITIONS - first ||
      count == 0 || count > 65536) {
    return fail(
        NRT_INVALID,
        "{} has {} partitions, of which 1 to 65536 numbers each can be shown; '{}' and '{}' "
        "are not within them",
        memory == Memory::kSbuf ? "SBUF" : "PSUM", NEURON_PARTITIONS, words[1], words[4]);
  }
  Tile tile{.first = first, .rows = {}};
  for (uint32_t p = first; p < first + partitions; ++p) {
    NEURON_TRY(bytes, target.bytes(memory, p, offset, count * type->bytes));
    std::vector<double> row;
    for (uint32_t n = 0; n < count; ++n) row.push_back(value_of(*type, &bytes[n * type->bytes]));
    tile.rows.push_back(std::move(row));
  }
  return tile;
}

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
      {"picture", "sbuf|psum P[:COUNT] OFFSET TYPE COUNT", "show a tile in shades", false,
       &Debugger::picture},
      {"list", "[ENGINE[:PC]]", "show instructions", false, &Debugger::list},
      {"help", "", "show this", false, &Debugger::help},
      {"quit", "", "break the execution off and end", false, &Debugger::quit}};
  return list;
}

// Names out of a NEFF can neither break a line nor command a terminal.
void Debugger::say(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    parts_.out << runtime::escaped(line) << (lines.eof() ? "" : "\n");
  }
  parts_.out << std::flush;
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
      // The end of the commands lets an execution under way go on to its end.
      ended_ = true;
      if (stopped) (void)go_on({});
      return;
    }
    if (const auto done = obey(*line, stopped); !done) {
      good_ = false;
      say(done.error().sentence + "\n");
    }
  }
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
  if (!stopped || (!settled && looks_stopped_ < kMostLooks)) return stopped;
  looks_ = looks_stopped_ = 0;
  tell_stops();
  prompt(true);
  return true;
}

void Debugger::failed() {
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
  constexpr const char* kConditions[] = {"", ">=", "==", ">", "<=", "<", "!="};
  switch (state.state) {
    case NEURON_STATE_IDLE:
      return "idle";
    case NEURON_STATE_RUNNING:
      return "runs";
    case NEURON_STATE_WAITING: {
      const uint32_t condition = state.waiting >> 8 & 7;
      if (condition == 0 || condition > 6) return "waits for its own transfers";
      const bool event = (state.waiting & NEURON_SEM_SLOT_EVENT) != 0;
      return format("waits for {} {} {}{}, which is {}",
                    event ? format("event {}", state.waiting & 255)
                          : target_.semaphore_name(state.waiting & 255),
                    kConditions[condition], (state.waiting & NEURON_SEM_SLOT_REG) != 0 ? "r" : "",
                    state.waiting >> 16, state.wait_value);
    }
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
    const auto done = parts_.execute();
    running_ = false;
    if (done) {
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
  const std::string what = words.empty() ? "engines" : words[0];
  if (what == "breakpoints") {
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
  if (what != "engines") return fail(NRT_INVALID, "expected engines, semaphores or breakpoints");
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
  NEURON_TRY(tile, read_tile(target_, words));
  double least = INFINITY, most = -INFINITY;
  for (const auto& row : tile.rows) {
    for (const double value : row) {
      if (!std::isfinite(value)) continue;
      least = std::min(least, value);
      most = std::max(most, value);
    }
  }
  constexpr std::string_view kShades = " .:-=+*#%@";
  for (const auto& row : tile.rows) {
    std::string text;
    for (const double value : row) {
      const double part = most > least ? (value - least) / (most - least) : 0;
      text += std::isnan(value) ? '?'
              : std::isinf(value)
                  ? '!'
                  : kShades[static_cast<size_t>(part * static_cast<double>(kShades.size() - 1))];
    }
    say(text + "\n");
  }
  say(format("' ' is {:.6g}, '@' {:.6g}, ? NaN, ! infinite\n", least, most));
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
  ended_ = released_ = true;
  for (unsigned engine = 0; running_ && engine < NEURON_CORE_ENGINES; ++engine) {
    NEURON_TRY(state, target_.state(engine));
    if (state.stopped()) return target_.command(engine, NEURON_CMD_ABORT);
  }
  return {};
}

}  // namespace neuron::debug
