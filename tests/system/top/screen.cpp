// SPDX-License-Identifier: Apache-2.0
#include "tests/system/top/screen.h"

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

namespace neuron::top {
namespace {

std::vector<int> numbers(const std::string& parameters) {
  std::vector<int> out(1);
  for (const char c : parameters) {
    if (c == ';') {
      out.push_back(0);
    } else if (c >= '0' && c <= '9') {
      out.back() = out.back() * 10 + (c - '0');
    }
  }
  return out;
}

// Bytes of the UTF-8 character that begins so.
size_t length_of(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

}  // namespace

void Picture::resize(int width, int height) {
  width_ = width;
  height_ = height;
  cells_.resize(static_cast<size_t>(height));
  for (auto& line : cells_) line.resize(static_cast<size_t>(width), " ");
  x_ = std::min(x_, width - 1);
  y_ = std::min(y_, height - 1);
  top_ = 0;
  bottom_ = height - 1;
  wrap_ = false;
}

std::string Picture::line(int y) const {
  std::string out;
  for (const std::string& cell : cells_[static_cast<size_t>(y)]) out += cell;
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

std::string Picture::text() const {
  std::string out;
  for (int y = 0; y < height_; ++y) out += line(y) + "\n";
  return out;
}

void Picture::erase(int x, int y, int count) {
  for (int i = std::max(0, x); i < std::min(width_, x + count); ++i) {
    cells_[static_cast<size_t>(y)][static_cast<size_t>(i)].assign(1, ' ');
  }
}

void Picture::feed(const std::string& bytes) {
  pending_ += bytes;
  size_t at = 0;
  while (at < pending_.size()) {
    const char c = pending_[at];
    size_t length = 1;
    if (c == 27) {
      if (at + 1 >= pending_.size()) break;
      const char kind = pending_[at + 1];
      if (kind == '[') {
        size_t end = at + 2;
        while (end < pending_.size() && (pending_[end] < 0x40 || pending_[end] > 0x7e)) ++end;
        if (end == pending_.size()) break;
        sequence(pending_.substr(at + 2, end - at - 2), pending_[end]);
        length = end - at + 1;
      } else {
        if (kind == 'M') back();
        length = kind == '(' || kind == ')' ? 3 : 2;  // character sets; keypad and the like
        if (at + length > pending_.size()) break;
      }
    } else if (static_cast<unsigned char>(c) < 0x20) {
      control(c);
    } else {
      length = length_of(static_cast<unsigned char>(c));
      if (at + length > pending_.size()) break;
      take(pending_.substr(at, length));
    }
    at += length;
  }
  pending_.erase(0, at);
}

void Picture::take(const std::string& character) {
  if (wrap_) {
    x_ = 0;
    advance();
    wrap_ = false;
  }
  cells_[static_cast<size_t>(y_)][static_cast<size_t>(x_)] = character;
  last_ = character;
  if (x_ + 1 < width_) {
    ++x_;
  } else {
    wrap_ = true;
  }
}

// Lines from `from` to the bottom of the region move up by `count`; a negative one moves them down.
void Picture::scroll(int from, int count) {
  const int lines = bottom_ - from + 1;
  if (lines <= 0) return;
  const int steps = std::min(std::abs(count), lines);
  const auto first = cells_.begin() + from, end = cells_.begin() + bottom_ + 1;
  if (count > 0) {
    std::rotate(first, first + steps, end);
    for (int y = bottom_ - steps + 1; y <= bottom_; ++y) erase(0, y, width_);
  } else {
    std::rotate(first, end - steps, end);
    for (int y = from; y < from + steps; ++y) erase(0, y, width_);
  }
}

void Picture::advance() {
  if (y_ == bottom_) {
    scroll(top_, 1);
  } else {
    y_ = std::min(y_ + 1, height_ - 1);
  }
}

void Picture::back() {
  if (y_ == top_) {
    scroll(top_, -1);
  } else {
    y_ = std::max(y_ - 1, 0);
  }
}

void Picture::control(char code) {
  wrap_ = false;
  if (code == '\r') x_ = 0;
  if (code == '\n') advance();
  if (code == '\b') x_ = std::max(0, x_ - 1);
  if (code == '\t') x_ = std::min((x_ / 8 + 1) * 8, width_ - 1);
}

void Picture::sequence(const std::string& parameters, char final) {
  const std::vector<int> n = numbers(parameters);
  const int first = std::max(1, n[0]);
  if (final == 'm') {
    for (const int code : n) colored_ |= (code >= 30 && code <= 38) || (code >= 40 && code <= 48);
    return;
  }
  if (final == 'l' && parameters == "?1049") given_back_ = true;
  if (!parameters.empty() && (parameters[0] == '?' || parameters[0] == '>')) return;
  auto& line = cells_[static_cast<size_t>(y_)];
  const int rest = width_ - x_;
  wrap_ = wrap_ && final == 'b';
  switch (final) {
    case 'H':
      y_ = first - 1;
      x_ = n.size() > 1 ? std::max(1, n[1]) - 1 : 0;
      break;
    case 'd':
      y_ = first - 1;
      break;
    case 'G':
      x_ = first - 1;
      break;
    case 'A':
      y_ -= first;
      break;
    case 'B':
      y_ += first;
      break;
    case 'C':
      x_ += first;
      break;
    case 'D':
      x_ -= first;
      break;
    case 'b':
      for (int i = 0; i < first; ++i) take(std::string(last_));
      break;
    case 'r':
      top_ = std::clamp(first - 1, 0, height_ - 1);
      bottom_ = std::clamp((n.size() > 1 && n[1] > 0 ? n[1] : height_) - 1, top_, height_ - 1);
      x_ = y_ = 0;
      break;
    case 'S':
      scroll(top_, first);
      break;
    case 'T':
      scroll(top_, -first);
      break;
    case 'L':
      scroll(y_, -first);
      break;
    case 'M':
      scroll(y_, first);
      break;
    case 'X':
      erase(x_, y_, first);
      break;
    case 'K':
      erase(n[0] == 0 ? x_ : 0, y_, n[0] == 1 ? x_ + 1 : width_);
      break;
    case 'J':
      if (n[0] == 0) erase(x_, y_, width_);
      for (int y = n[0] == 0 ? y_ + 1 : 0; y < (n[0] == 1 ? y_ : height_); ++y) erase(0, y, width_);
      break;
    case '@':
      line.insert(line.begin() + x_, static_cast<size_t>(std::min(first, rest)), " ");
      line.resize(static_cast<size_t>(width_));
      break;
    case 'P':
      line.erase(line.begin() + x_, line.begin() + x_ + std::min(first, rest));
      line.resize(static_cast<size_t>(width_), " ");
      break;
    default:
      break;
  }
  x_ = std::clamp(x_, 0, width_ - 1);
  y_ = std::clamp(y_, 0, height_ - 1);
}

Screen::Screen(const test::Words& command, const test::Environment& environment, int width,
               int height) {
  winsize size = {};
  size.ws_col = static_cast<unsigned short>(width);
  size.ws_row = static_cast<unsigned short>(height);
  picture_.resize(width, height);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = ::forkpty(&terminal_, nullptr, nullptr, &size);
  if (pid == 0) {
    for (const char* name : {"NO_COLOR", "CLICOLOR_FORCE", "LINES", "COLUMNS"}) ::unsetenv(name);
    ::setenv("TERM", "xterm", 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    for (const auto& [name, value] : environment) {
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    }
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  child_ = test::Child(pid);
}

Screen::~Screen() {
  signal(SIGKILL);
  close_terminal();
}

bool Screen::read(int milliseconds) {
  pollfd readable = {terminal_, POLLIN, 0};
  if (::poll(&readable, 1, milliseconds) <= 0) return true;
  char buffer[65536];
  const ssize_t length = ::read(terminal_, buffer, sizeof buffer);
  if (length <= 0) return false;
  picture_.feed(std::string(buffer, static_cast<size_t>(length)));
  return true;
}

bool Screen::waits_for(const std::string& text, bool there) {
  return until([&](const Picture& picture) {
    return (picture.text().find(text) != std::string::npos) == there;
  });
}

void Screen::press(const std::string& keys) {
  if (::write(terminal_, keys.data(), keys.size()) < 0) close_terminal();
}

void Screen::resize(int width, int height) {
  winsize size = {};
  size.ws_col = static_cast<unsigned short>(width);
  size.ws_row = static_cast<unsigned short>(height);
  picture_.resize(width, height);
  ::ioctl(terminal_, TIOCSWINSZ, &size);
}

void Screen::close_terminal() {
  if (terminal_ >= 0) ::close(terminal_);
  terminal_ = -1;
}

test::Ending Screen::end() {
  const auto deadline = base::Deadline::after(test::kPatience);
  while (running() && !deadline.expired()) {
    // The program may wait for somebody to read what it says last.
    if (terminal_ < 0 || !read(20)) ::usleep(5000);
  }
  while (terminal_ >= 0 && !running()) {
    pollfd readable = {terminal_, POLLIN, 0};
    if (::poll(&readable, 1, 0) <= 0 || !read(0)) break;
  }
  return child_.wait(std::chrono::milliseconds(0));
}

}  // namespace neuron::top
