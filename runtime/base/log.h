// SPDX-License-Identifier: Apache-2.0
//
// Log of the runtime: one line per message, to stderr, to the system log or to a file per
// component. NEURON_RT_LOG_LEVEL and NEURON_RT_LOG_LEVEL_<component> choose the level (QUIET,
// ERROR, WARN, INFO, DEBUG, TRACE; default ERROR), NEURON_RT_LOG_LOCATION and
// NEURON_RT_LOG_LOCATION_<component> the place (console, syslog; for a component also a file name).
// They are read at the first message or by configure_log(). Thread-safe and fork-safe: no lock; a
// line is one write() from a buffer on the stack; longer lines are cut. A message allocates nothing
// (its arguments may), never throws, and cannot fail visibly. Line: "2026-11-21 03:57:12.123456
// 1234:1240 ERROR NRT text" in UTC, pid:tid.
#ifndef RUNTIME_BASE_LOG_H
#define RUNTIME_BASE_LOG_H

#include <cstdint>

#include "runtime/base/error.h"

namespace neuron::runtime {

enum class LogLevel : uint8_t { kQuiet, kError, kWarn, kInfo, kDebug, kTrace };

// NRT: the C interface and sessions. NMGR: files, models, execution. TDRV: devices, memory, rings.
enum class LogComponent : uint8_t { kNrt, kNmgr, kTdrv };
inline constexpr int kLogComponents = 3;

// Reads the environment again. If a value cannot be read, the default is used, an error is
// returned, and its sentence is written to stderr once, whatever the level. A file of the earlier
// configuration stays open, because another thread may still write to it.
Result<void> configure_log();

// The socket of the system's log; /dev/log unless a test has set another. `path` outlives its use
// and is shorter than a socket's address. Any thread.
void set_system_log(const char* path);

bool log_enabled(LogComponent component, LogLevel level) noexcept;
// Whether the program prints the sentences of calls that fail, and of variables that nothing reads,
// itself (NEURON_OPEN_PROGRAM_TELLS), so that a line on the same console would repeat them. False
// if the component's log goes elsewhere.
bool told_by_program(LogComponent component) noexcept;
// Whether a warning is shown that an operator has to know of: also if nobody has chosen a level.
bool notices_enabled(LogComponent component) noexcept;

void log_arguments(LogComponent component, LogLevel level, fmt::string_view text,
                   fmt::format_args arguments) noexcept;

inline void log_formatted(LogComponent component, LogLevel level, fmt::string_view text,
                          fmt::format_args arguments) noexcept {
  if (log_enabled(component, level)) log_arguments(component, level, text, arguments);
}

template <class... A>
void log(LogComponent component, LogLevel level, fmt::format_string<A...> text,
         A&&... arguments) noexcept {
  log_formatted(component, level, text, fmt::make_format_args(arguments...));
}

template <class... A>
void log_error(LogComponent component, fmt::format_string<A...> text, A&&... arguments) noexcept {
  log_formatted(component, LogLevel::kError, text, fmt::make_format_args(arguments...));
}

template <class... A>
void log_warning(LogComponent component, fmt::format_string<A...> text, A&&... arguments) noexcept {
  log_formatted(component, LogLevel::kWarn, text, fmt::make_format_args(arguments...));
}

// A warning that is shown unless the environment chooses a level without warnings. For what changes
// results or loses data, a few times in a process.
template <class... A>
void log_notice(LogComponent component, fmt::format_string<A...> text, A&&... arguments) noexcept {
  if (!notices_enabled(component)) return;
  log_arguments(component, LogLevel::kWarn, text, fmt::make_format_args(arguments...));
}

template <class... A>
void log_info(LogComponent component, fmt::format_string<A...> text, A&&... arguments) noexcept {
  log_formatted(component, LogLevel::kInfo, text, fmt::make_format_args(arguments...));
}

template <class... A>
void log_debug(LogComponent component, fmt::format_string<A...> text, A&&... arguments) noexcept {
  log_formatted(component, LogLevel::kDebug, text, fmt::make_format_args(arguments...));
}

}  // namespace neuron::runtime

#endif
