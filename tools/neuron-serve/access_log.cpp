// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/access_log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "driver/base/format.h"

namespace neuron::serve {
namespace {

// Of text that clients choose.
constexpr size_t kLongest = 256;
// Lines that wait for a reader that is slow.
constexpr size_t kMostWaiting = 256 << 10;

void append_escaped(std::string& line, std::string_view text) {
  char room[kLongest];
  const size_t used = base::escape_into(room, sizeof(room), {text.data(), text.size()});
  line.append(used != 0 ? std::string_view(room, used) : "-");
}

std::string now_text() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return base::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z ", parts.tm_year + 1900,
                      parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                      milliseconds);
}

// What a pipe takes without waiting once it is writable; a journal's socket takes it as a datagram
// or a stream.
ssize_t write_some(int fd, std::string_view text) {
  text = text.substr(0, PIPE_BUF);
  const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0 || errno != ENOTSOCK) return sent;
  pollfd writable = {fd, POLLOUT, 0};
  if (::poll(&writable, 1, 0) <= 0 || (writable.revents & POLLOUT) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return ::write(fd, text.data(), text.size());
}

}  // namespace

bool AccessLog::open(const std::string& path, std::string& error) {
  if (path == "-") {
    fd_ = STDERR_FILENO;
    return true;
  }
  // Without waiting for the reader of a FIFO.
  base::FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640));
  if (!file) {
    error = "the access log " + path + " cannot be opened: " + std::strerror(errno);
    return false;
  }
  flush();
  file_ = std::move(file);
  fd_ = file_.get();
  return true;
}

void AccessLog::add(const Access& access) {
  if (!enabled()) return;
  if (lines_.size() > kMostWaiting) {
    ++dropped_;
    return;
  }
  lines_ += now_text();
  for (const std::string_view text : {access.peer, access.method, access.target}) {
    append_escaped(lines_, text);
    lines_ += ' ';
  }
  lines_ +=
      base::format("{} {} {} {}us\n", access.status, access.bytes_in, access.bytes_out,
                   std::chrono::duration_cast<std::chrono::microseconds>(access.time).count());
}

void AccessLog::flush() {
  // bounded: each turn writes something
  while (!lines_.empty()) {
    const ssize_t written = write_some(fd_, lines_);
    if (written > 0) {
      lines_.erase(0, static_cast<size_t>(written));
      continue;
    }
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
    dropped_ += static_cast<uint64_t>(std::count(lines_.begin(), lines_.end(), '\n'));
    lines_.clear();
  }
}

}  // namespace neuron::serve
