// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <vector>

#include "driver/base/file_descriptor.h"
#include "runtime/base/environment.h"

namespace neuron::runtime {
namespace {

constexpr size_t kLineBytes = 2048;
constexpr int kConsole = STDERR_FILENO;
constexpr int kSyslog = -2;
constexpr const char* kLevelNames[] = {"QUIET", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"};
constexpr const char* kComponentNames[kLogComponents] = {"NRT", "NMGR", "TDRV"};

// Level and place of a component. Each is one word; configure_log() writes it, every thread reads
// it. A reader that sees one new and one old value logs one line to the old place, no more. All
// accesses are relaxed: no other memory is published through these words.
struct Route {
  std::atomic<uint8_t> level{static_cast<uint8_t>(LogLevel::kError)};
  std::atomic<int> place{kConsole};
  std::atomic<bool> chosen{false};  // the environment says the level
};
Route routes[kLogComponents];
std::atomic<bool> program_tells{false};  // relaxed, as the routes are

// False until the environment has been read once. Two threads that find it false both read it, with
// the same result. Release in configure_log() pairs with the acquire in log_enabled(): a thread
// that sees true also sees the routes.
std::atomic<bool> configured{false};

Result<uint8_t> read_level(const std::string& name, uint8_t fallback) {
  NEURON_TRY(choice,
             environment_choice(name.c_str(), 99,
                                {"QUIET", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "WARNING"}));
  if (choice == 99) return fallback;
  return static_cast<uint8_t>(choice == 6 ? size_t(LogLevel::kWarn) : choice);
}

// Gives the descriptor of the earlier opening if the name still means the same file. No file is
// ever closed: a thread may be writing to it.
int open_log(const std::string& name) {
  struct Known {
    std::string name;
    int file;
  };
  static auto* mutex = new std::mutex;  // these outlive static destructors: others still log
  static auto* known = new std::vector<Known>;
  std::lock_guard lock(*mutex);
  struct stat now, then;
  for (const Known& entry : *known) {
    if (entry.name == name && stat(name.c_str(), &now) == 0 && fstat(entry.file, &then) == 0 &&
        now.st_dev == then.st_dev && now.st_ino == then.st_ino) {
      return entry.file;
    }
  }
  const int file = base::above_standard_streams(
      open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644));
  if (file >= 0) known->push_back({name, file});
  return file;
}

Result<int> read_place(const std::string& name, int fallback, bool file_allowed) {
  const std::string text = environment_text(name.c_str());
  if (text.empty()) return fallback;
  if (strcasecmp(text.c_str(), "console") == 0) return kConsole;
  if (strcasecmp(text.c_str(), "syslog") == 0) return kSyslog;
  if (!file_allowed) {
    return fail(NRT_INVALID, "{} is \"{}\"; give console or syslog, or unset it", name, text);
  }
  const int file = open_log(text);
  if (file < 0) {
    return fail_with_errno(NRT_INVALID, errno, "{} names {}, which cannot be opened for writing",
                           name, text);
  }
  return file;
}

// Converts days since 1970-01-01 to a civil date. Does not call localtime, whose lock a fork may
// leave held.
void civil_date(int64_t days, int& year, int& month, int& day) {
  days += 719468;
  const int64_t era = days / 146097;
  const int64_t day_of_era = days - era * 146097;
  const int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted_month = (5 * day_of_year + 2) / 153;
  day = static_cast<int>(day_of_year - (153 * shifted_month + 2) / 5 + 1);
  month = static_cast<int>(shifted_month < 10 ? shifted_month + 3 : shifted_month - 9);
  year = static_cast<int>(year_of_era + era * 400 + (month <= 2 ? 1 : 0));
}

int line_head(char* out, size_t size, LogComponent component, LogLevel level) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  int year = 0, month = 0, day = 0;
  civil_date(now.tv_sec / 86400, year, month, day);
  const int second = static_cast<int>(now.tv_sec % 86400);
  return snprintf(out, size, "%04d-%02d-%02d %02d:%02d:%02d.%06ld %d:%ld %s %s ", year, month, day,
                  second / 3600, second / 60 % 60, second % 60, now.tv_nsec / 1000, getpid(),
                  syscall(SYS_gettid), kLevelNames[static_cast<int>(level)],
                  kComponentNames[static_cast<int>(component)]);
}

// Relaxed: only tests change it, when no other thread logs.
std::atomic<const char*> system_log{"/dev/log"};

// Sends one datagram on a socket of its own, because syslog(3) takes a lock and allocates.
bool send_to_syslog(const char* text, size_t size, LogLevel level) {
  constexpr int kPriority[] = {3, 3, 4, 6, 7, 7};
  constexpr int kUserFacility = 1 << 3;
  char line[kLineBytes + 64];
  const int head =
      snprintf(line, sizeof(line),
               "<%d>neuron-rt[%d]: ", kUserFacility | kPriority[static_cast<int>(level)], getpid());
  if (size > sizeof(line) - static_cast<size_t>(head)) {
    size = sizeof(line) - static_cast<size_t>(head);
  }
  std::memcpy(line + head, text, size);
  const int connection =
      base::above_standard_streams(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connection < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, system_log.load(std::memory_order_relaxed),
          sizeof(address.sun_path) - 1);
  const ssize_t sent = sendto(connection, line, static_cast<size_t>(head) + size, MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  close(connection);
  return sent >= 0;
}

void write_line(int place, LogComponent component, LogLevel level, fmt::string_view text,
                fmt::format_args arguments) noexcept;

// Reports a bad value of the log's own variables on stderr, whatever the level and place: otherwise
// nobody would learn of it. Each nrt_init reads the environment; a repeated sentence is not
// reported again.
void warn_of(const std::string& sentence) {
  // Relaxed: only the value counts. Two threads at once may both report it.
  static std::atomic<size_t> said{0};
  const size_t hash = std::hash<std::string>{}(sentence) | 1;
  if (said.exchange(hash, std::memory_order_relaxed) == hash) return;
  write_line(kConsole, LogComponent::kNrt, LogLevel::kWarn, "{}; the default is used",
             fmt::make_format_args(sentence));
}

}  // namespace

void set_system_log(const char* path) { system_log.store(path, std::memory_order_relaxed); }

Result<void> configure_log() {
  Error first;
  bool failed = false;
  auto value_or = [&](auto result, auto fallback) {
    if (result) return *result;
    if (failed) first.sentence += "; " + result.error().sentence;
    if (!failed) first = result.error();
    failed = true;
    return fallback;
  };
  const auto error_level = static_cast<uint8_t>(LogLevel::kError);
  const uint8_t level = value_or(read_level("NEURON_RT_LOG_LEVEL", error_level), error_level);
  const int place = value_or(read_place("NEURON_RT_LOG_LOCATION", kConsole, false), kConsole);
  for (int i = 0; i < kLogComponents; ++i) {
    const std::string suffix = std::string("_") + kComponentNames[i];
    routes[i].level.store(value_or(read_level("NEURON_RT_LOG_LEVEL" + suffix, level), level),
                          std::memory_order_relaxed);
    routes[i].chosen.store(environment_is_set("NEURON_RT_LOG_LEVEL") ||
                               environment_is_set(("NEURON_RT_LOG_LEVEL" + suffix).c_str()),
                           std::memory_order_relaxed);
    // A file of an earlier configuration stays open: a thread may be writing to it.
    routes[i].place.store(
        value_or(read_place("NEURON_RT_LOG_LOCATION" + suffix, place, true), place),
        std::memory_order_relaxed);
  }
  program_tells.store(value_or(environment_boolean("NEURON_OPEN_PROGRAM_TELLS", false), false),
                      std::memory_order_relaxed);
  configured.store(true, std::memory_order_release);  // Pairs with the acquire in log_enabled().
  if (!failed) return {};
  warn_of(first.sentence);
  return first;
}

bool log_enabled(LogComponent component, LogLevel level) noexcept {
  if (!configured.load(std::memory_order_acquire)) {  // Pairs with the release in configure_log().
    try {
      (void)configure_log();
    } catch (...) {
      // Out of memory: log with the defaults.
    }
  }
  return level != LogLevel::kQuiet &&
         static_cast<uint8_t>(level) <=
             routes[static_cast<int>(component)].level.load(std::memory_order_relaxed);
}

bool told_by_program(LogComponent component) noexcept {
  (void)log_enabled(component, LogLevel::kError);  // reads the environment if nobody has
  return program_tells.load(std::memory_order_relaxed) &&
         routes[static_cast<int>(component)].place.load(std::memory_order_relaxed) == kConsole;
}

bool notices_enabled(LogComponent component) noexcept {
  return log_enabled(component, LogLevel::kWarn) ||
         !routes[static_cast<int>(component)].chosen.load(std::memory_order_relaxed);
}

namespace {

void write_line(int place, LogComponent component, LogLevel level, fmt::string_view text,
                fmt::format_args arguments) noexcept {
  const int saved_errno = errno;
  char line[kLineBytes];
  const int head = line_head(line, sizeof(line) - 1, component, level);
  size_t size = static_cast<size_t>(head > 0 ? head : 0);
  char message[kLineBytes];
  const size_t length = base::format_arguments_into(message, sizeof(message), text, arguments);
  // A message is one line of printable text, whatever a file or a caller put into it.
  size += base::escape_into(line + size, sizeof(line) - 1 - size, {message, length});
  line[size++] = '\n';
  if (place != kSyslog || !send_to_syslog(line, size - 1, level)) {
    const int file = place == kSyslog ? kConsole : place;
    if (write(file, line, size) < 0 && errno == EINTR) {
      (void)!write(file, line, size);
    }
  }
  errno = saved_errno;
}

}  // namespace

void log_arguments(LogComponent component, LogLevel level, fmt::string_view text,
                   fmt::format_args arguments) noexcept {
  write_line(routes[static_cast<int>(component)].place.load(std::memory_order_relaxed), component,
             level, text, arguments);
}

}  // namespace neuron::runtime
