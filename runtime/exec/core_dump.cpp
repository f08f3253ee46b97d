// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/core_dump.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>

#include "driver/base/file_descriptor.h"
#include "driver/base/guarded.h"
#include "driver/base/hexadecimal.h"
#include "driver/base/random_bytes.h"
#include "driver/base/sha256.h"
#include "hw/address_map.h"
#include "hw/control.h"
#include "runtime/base/child_program.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/debug/target.h"
#include "runtime/exec/engine_states.h"

namespace neuron::runtime {
namespace {

constexpr const char* kProgram = "/opt/aws/neuron/bin/neuron-dump";
constexpr const char* kFolder = "/tmp/neuron-core-dump/dt-%d-cid-%c";
constexpr std::chrono::seconds kPatience{30};
constexpr unsigned kRegisters = 64;
constexpr int64_t kListed = 8;  // instructions before and behind the one of an engine

// A variable that is set to nothing differs from one that is not set.
std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

// Empty if dumps are off. Whoever names a program wants dumps, and hears once that it cannot be
// run.
std::string program() {
  // A program with more rights than its user runs nothing that the user names.
  if (::getauxval(AT_SECURE) != 0) return {};
  const auto local = variable("NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY");
  const auto remote = variable("NEURON_RT_S3_CORE_DUMP_PREFIX");
  if (local && local->empty() && remote && remote->empty()) return {};
  const std::string named = environment_text("NEURON_OPEN_DUMP_PROGRAM");
  std::string path = named.empty() ? kProgram : named;
  if (::access(path.c_str(), X_OK) == 0) return path;
  const int reason = errno;
  static std::atomic<size_t> told{0};  // the hash of the last name; relaxed, only the value counts
  const size_t hash = std::hash<std::string>{}(path) | 1;
  if (!named.empty() && told.exchange(hash, std::memory_order_relaxed) != hash) {
    const Error why = fail_with_errno(NRT_FAILURE, reason, "'{}', which cannot be run", path);
    log_notice(LogComponent::kNrt,
               "there is no core dump of the failed execution: NEURON_OPEN_DUMP_PROGRAM names {}",
               why.sentence);
  }
  return {};
}

std::string instance_id() {
  std::ifstream tag("/sys/class/dmi/id/board_asset_tag");
  std::string text;
  if (tag >> text && text.starts_with("i-")) return text;
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "unknown";
  return name;
}

std::string random_id() {
  std::array<uint8_t, 8> bytes{};
  if (!base::random_bytes(bytes)) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    std::memcpy(bytes.data(), &now, sizeof(now));
  }
  return base::hexadecimal(bytes);
}

const char* state_name(uint32_t state) {
  constexpr const char* kNames[] = {"idle",    "running",    "waiting", "halted",
                                    "stopped", "breakpoint", "fault"};
  return state < std::size(kNames) ? kNames[state] : "unknown";
}

// A register of the core, for a dump: one that cannot be read says so.
std::string register_text(const Core& core, uint64_t at) {
  const auto value = core.device().read_register(at);
  return value ? format("{:#x}", *value) : "unreadable";
}

void append_instructions(std::string& out, const debug::Target& target, const debug::Place& at) {
  for (int64_t pc = at.pc - kListed; pc <= at.pc + kListed; ++pc) {
    const debug::Place place{at.engine, pc};
    if (!target.has(place)) continue;
    const std::string line = target.line(place);
    out += format("  {} {:6}: {}{}\n", pc == at.pc ? '>' : ' ', pc, target.text(place),
                  line.empty() ? "" : "  # " + escaped(line));
  }
}

void append_engine(std::string& out, const Core& core, const debug::Target& target,
                   unsigned engine) {
  const uint64_t block = core.place().window_bar0() + NEURON_CORE_ENGINE(engine);
  const auto state = target.state(engine);
  if (!state) {
    out += format("engine {}: {}\n", isa::engine_name(engine), state.error().sentence);
    return;
  }
  out += format("engine {}: {} at {}, {} ps, waits for {:#x}, which is {}\n",
                isa::engine_name(engine), state_name(state->state), state->at.pc, state->time_ps,
                state->waiting, state->wait_value);
  out += "  exception:";
  constexpr std::pair<const char*, uint32_t> kException[] = {
      {"code", NEURON_ENG_EXC_CODE},       {"pc", NEURON_ENG_EXC_PC},
      {"debug", NEURON_ENG_EXC_DEBUG},     {"field", NEURON_ENG_EXC_FIELD},
      {"low", NEURON_ENG_EXC_ADDR_LO},     {"high", NEURON_ENG_EXC_ADDR_HI},
      {"information", NEURON_ENG_EXC_INFO}};
  for (const auto& [name, offset] : kException) {
    out += format(" {} {}", name, register_text(core, block + offset));
  }
  out += '\n';
  for (unsigned number = 0; number < kRegisters; ++number) {
    const auto value = target.register_of(engine, number);
    if (value && *value != 0) out += format("  r{} = {} ({:#x})\n", number, *value, *value);
  }
  append_instructions(out, target, state->at);
}

std::string core_text(const LoadedModel& model) {
  const Core& core = model.core();
  const debug::Target target(model);
  std::string out;
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    append_engine(out, core, target, engine);
  }
  out += "semaphores that are not 0:\n";
  for (unsigned number = 0; number < NEURON_SEMAPHORES; ++number) {
    const auto value = target.semaphore(number);
    if (value && *value != 0) {
      out += format("  {} = {}\n", escaped(target.semaphore_name(number)), *value);
    }
  }
  const std::string queues = describe_engines(model, false).queues;
  return out + "DMA: " + (queues.empty() ? "no queue has descriptors left" : queues) + "\n";
}

std::string cc_core_text(const Core& core, uint32_t number) {
  const uint64_t window = core.place().cc_bar0(number);
  const uint64_t block = window + NEURON_CC_ENGINE;
  const auto status = core.device().read_register(block + NEURON_ENG_STATUS);
  std::string out = format("CC core {}: {} at instruction {}, waits for {}, which is {}\n", number,
                           status ? state_name(*status & 0xF) : "unreadable",
                           register_text(core, block + NEURON_ENG_PC),
                           register_text(core, block + NEURON_ENG_WAITING),
                           register_text(core, block + NEURON_ENG_WAIT_VAL));
  out += "semaphores that are not 0:\n";
  for (uint32_t n = 0; n < NEURON_SEMAPHORES; ++n) {
    const auto value = core.device().read_register(window + NEURON_CC_SEMAPHORES +
                                                   NEURON_SEM_BLOCK_READ + 4ull * n);
    if (value && *value != 0) out += format("  {} = {}\n", n, *value);
  }
  return out;
}

// A folder of this user's own. Its name may be guessed, so what lies there is not trusted.
Result<void> make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (::mkdir(path.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) {
    return fail_with_errno(NRT_FAILURE, errno, "the folder '{}' cannot be made", path);
  }
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
      status.st_uid == ::geteuid()) {
    return {};
  }
  return fail(NRT_FAILURE,
              "'{}' is no folder of this user; name another one in "
              "NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY",
              path);
}

Result<void> write_new(const std::string& path, std::string_view text) {
  const base::FileDescriptor file(base::above_standard_streams(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)));
  if (!file) return fail_with_errno(NRT_FAILURE, errno, "'{}' cannot be made", path);
  while (!text.empty()) {
    const ssize_t done = ::write(file.get(), text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      const int reason = errno;
      ::unlink(path.c_str());  // half a dump looks like a whole one
      return fail_with_errno(NRT_FAILURE, reason, "'{}' cannot be written", path);
    }
    text.remove_prefix(static_cast<size_t>(done));
  }
  return {};
}

}  // namespace

CoreDump::Facts CoreDump::facts_of(const LoadedModel& model, const std::string& root) {
  Facts facts;
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  char text[32] = "";
  if (::localtime_r(&now, &local) != nullptr) {
    std::strftime(text, sizeof(text), "%Y-%m-%d-%H-%M", &local);
  }
  facts.time = text;
  facts.cluster = std::string(16, '0');
  if (!model.operations().empty()) {
    const auto digest =
        base::Sha256::of({reinterpret_cast<const uint8_t*>(root.data()), root.size()});
    facts.cluster = base::hexadecimal(std::span(digest).first(8));
  }
  facts.log = random_id();
  facts.instance = instance_id();
  facts.process = std::to_string(::getpid());
  facts.thread = std::to_string(::gettid());
  return facts;
}

std::string CoreDump::filled_in(const std::string& pattern, const Facts& facts) {
  std::string out;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const std::string* value = nullptr;
    if (pattern[at] == '%' && at + 1 < pattern.size()) {
      switch (pattern[at + 1]) {
        case 'd':
          value = &facts.time;
          break;
        case 'c':
          value = &facts.cluster;
          break;
        case 'p':
          value = &facts.process;
          break;
        case 't':
          value = &facts.thread;
          break;
        case 'l':
          value = &facts.log;
          break;
        case 'i':
          value = &facts.instance;
          break;
        default:
          break;
      }
    }
    if (value == nullptr) {
      out += pattern[at];
      continue;
    }
    out += *value;
    ++at;
  }
  return out;
}

std::optional<CoreDump> CoreDump::write_files(Session& session, const LoadedModel& model,
                                              const Error& error) {
  const std::string hook = program();
  if (hook.empty()) return std::nullopt;
  const uint32_t number = session.core_dumps.fetch_add(1, std::memory_order_relaxed);
  if (number >= kMostDumps) {
    if (number == kMostDumps) {
      log_notice(LogComponent::kNrt,
                 "{} core dumps were written since nrt_init, and no more of them are", kMostDumps);
    }
    return std::nullopt;
  }
  const Facts facts = facts_of(model, session.configuration().root);
  const std::string local = environment_text("NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY");
  const std::string folder = filled_in(local.empty() ? kFolder : local, facts);
  auto written = make_folder(folder);
  const auto write = [&](const Core& core, const std::string& what, const std::string& text) {
    if (!written) return;
    const std::string path =
        format("{}/{}-nd{}-{}-pid-{}-tid-{}-lid-{}", folder, facts.instance, core.device().index(),
               what, facts.process, facts.thread, facts.log);
    written = write_new(path, format("core dump of the open Neuron runtime, version 1\n"
                                     "failure (status {}): {}\nmodel: {}\nuuid: {}\nexecution: {}\n"
                                     "device {}, core {}\n{}",
                                     static_cast<int>(error.status), escaped(error.sentence),
                                     escaped(model.name()), base::hexadecimal(model.uuid()),
                                     core.executions, core.device().index(), core.number(), text));
  };
  for (const LoadedModel* part : {&model, static_cast<const LoadedModel*>(model.second())}) {
    if (part == nullptr) continue;
    const Core& core = part->core();
    write(core, format("nc{}", core.number()), core_text(*part));
    for (uint32_t k = 0; k < core.place().chip->cc_cores && !part->operations().empty(); ++k) {
      write(core, format("cc-core-{}", core.number() * core.place().chip->cc_cores + k),
            cc_core_text(core, k));
    }
  }
  if (!written) {
    log_notice(LogComponent::kNrt, "there is no core dump of the failed execution: {}",
               written.error().sentence);
    return std::nullopt;
  }
  log_warning(LogComponent::kNrt, "a core dump of the failed execution of '{}' is in {}",
              model.name(), folder);
  CoreDump dump;
  dump.command_ = {hook,
                   "--neff-name",
                   model.name(),
                   "--neff-uuid",
                   base::hexadecimal(model.uuid()),
                   "--date-time",
                   facts.time,
                   "--pid",
                   facts.process,
                   "--tid",
                   facts.thread,
                   "--log-id",
                   facts.log,
                   "--instance-id",
                   facts.instance,
                   "--cluster-id",
                   facts.cluster,
                   "--error-location",
                   format("nd{}-nc{}", model.core().device().index(), model.core().number()),
                   "--error-code",
                   std::to_string(static_cast<int>(error.status)),
                   "--local-output-dir",
                   folder};
  if (const std::string remote = environment_text("NEURON_RT_S3_CORE_DUMP_PREFIX");
      !remote.empty()) {
    dump.command_.insert(dump.command_.end(), {"--s3-output-prefix", filled_in(remote, facts)});
  }
  return dump;
}

std::optional<CoreDump> CoreDump::write(Session& session, const LoadedModel& model,
                                        const Error& error) noexcept {
  return base::guarded([&] { return write_files(session, model, error); },
                       [](const char* what, bool) -> std::optional<CoreDump> {
                         log_notice(LogComponent::kNrt,
                                    "there is no core dump of the failed execution: {}", what);
                         return std::nullopt;
                       });
}

void CoreDump::hand_over() const noexcept {
  base::guarded(
      [&] {
        if (const auto done = run_child_program(command_, kPatience); !done) {
          log_notice(LogComponent::kNrt, "the core dump stays where it is: {}",
                     done.error().sentence);
        }
      },
      [](const char* what, bool) {
        log_notice(LogComponent::kNrt, "the core dump stays where it is: {}", what);
      });
}

}  // namespace neuron::runtime
