// SPDX-License-Identifier: Apache-2.0
#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

namespace neuron::test {

namespace {

// Of this process, as `changes` says; "name=value" each.
Words variables(const Environment& changes) {
  Words all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (value) all.push_back(name + "=" + *value);
  }
  return all;
}

std::vector<char*> pointers(Words& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// Its two ends: to read, to write.
std::pair<base::FileDescriptor, base::FileDescriptor> pipe() {
  int ends[2] = {-1, -1};
  (void)!::pipe2(ends, O_CLOEXEC);  // without ends, what is written and read fails
  return {base::FileDescriptor(ends[0]), base::FileDescriptor(ends[1])};
}

}  // namespace

Process::Process(const Words& command, const Environment& environment, const std::string& log,
                 Group group) {
  auto [input, to] = pipe();
  auto [from, output] = pipe();
  input_ = std::move(to);
  output_ = std::move(from);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, input.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, output.get(), STDOUT_FILENO);
  if (log.empty()) {
    ::posix_spawn_file_actions_adddup2(&files, output.get(), STDERR_FILENO);
  } else if (log != kSameError) {
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
  }
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  if (group == Group::kSeparate) ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  Words words = command, settings = variables(environment);
  pid_t pid = -1;
  refused_ = ::posix_spawnp(&pid, words[0].c_str(), &files, &attributes, pointers(words).data(),
                            pointers(settings).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  child_ = Child(refused_ == 0 ? pid : -1, group == Group::kSeparate);
}

Ending Process::wait(std::chrono::milliseconds limit) {
  return refused_ != 0 ? Ending{Ending::Kind::kNotStarted, refused_} : child_.wait(limit);
}

Ending Process::stop() {
  signal(SIGTERM);
  return wait();
}

bool Process::write(const std::string& text) {
  return ::write(input_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool Process::read(base::Deadline deadline) {
  pollfd readable = {output_.get(), POLLIN, 0};
  if (end_ || ::poll(&readable, 1, deadline.remaining_ms()) <= 0) return false;
  char buffer[65536];
  const ssize_t length = ::read(output_.get(), buffer, sizeof(buffer));
  end_ = length <= 0;
  if (!end_) read_.append(buffer, static_cast<size_t>(length));
  return !end_;
}

std::optional<std::string> Process::until(char delimiter, base::Deadline deadline) {
  size_t looked = 0, found;
  while ((found = read_.find(delimiter, looked)) == std::string::npos) {
    looked = read_.size();
    if (!read(deadline)) return std::nullopt;
  }
  std::string text = read_.substr(0, found);
  read_.erase(0, found + 1);
  return text;
}

std::string Process::line() {
  return until('\n', base::Deadline::after(kPatience)).value_or(end_ ? "(end)" : "(nothing)");
}

std::string Process::rest(std::chrono::milliseconds limit) {
  const base::Deadline deadline = base::Deadline::after(limit);
  while (read(deadline)) continue;
  return std::exchange(read_, {});
}

Run run(const Words& command, const Environment& environment, std::chrono::milliseconds limit) {
  const base::Deadline deadline = base::Deadline::after(limit);
  Process process(command, environment, "", Process::Group::kSeparate);
  process.close_input();
  Run result;
  result.output = process.rest(limit);
  result.ending = process.wait(std::chrono::milliseconds(deadline.remaining_ms()));
  return result;
}

Run shell(const std::string& line, const Environment& environment,
          std::chrono::milliseconds limit) {
  return run({"/bin/sh", "-c", line}, environment, limit);
}

}  // namespace neuron::test
