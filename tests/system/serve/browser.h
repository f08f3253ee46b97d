// SPDX-License-Identifier: Apache-2.0
// A headless Chromium with one page, driven through its debugging pipe (DevTools protocol).
// One thread. Owns the process and its profile folder. Nothing waits longer than kPatience; a
// command that fails gives null, and `log()` says what the browser said.
#ifndef TESTS_SYSTEM_SERVE_BROWSER_H
#define TESTS_SYSTEM_SERVE_BROWSER_H

#include <boost/json.hpp>
#include <string>

#include "tests/multi/processes.h"

namespace neuron::serve_test {

class Browser {
 public:
  static constexpr std::chrono::seconds kPatience{40};

  explicit Browser(const std::string& url) {
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) return;
    const std::string profile = "--user-data-dir=" + folder_.path() + "/profile";
    const std::string log = folder_.path() + "/log";
    pid_ = ::fork();
    if (pid_ == 0) {
      // A group of its own, because it starts processes of its own.
      ::setpgid(0, 0);
      const int null = ::open("/dev/null", O_RDWR);
      const int error = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      // Above what is replaced next.
      const int in = ::fcntl(to[0], F_DUPFD, 20), out = ::fcntl(from[1], F_DUPFD, 20);
      ::dup2(null, 0);
      ::dup2(error, 1);
      ::dup2(error, 2);
      ::dup2(in, 3);
      ::dup2(out, 4);
      ::setenv("HOME", folder_.path().c_str(), 1);
      ::execlp("chromium", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
               "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
               "--disable-background-networking", "--window-size=1000,800",
               "--remote-debugging-pipe", profile.c_str(), "about:blank", nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = to[1];
    out_ = from[0];
    const auto target = call("Target.createTarget", {{"url", url}});
    if (!target.is_object()) return;
    const auto session =
        call("Target.attachToTarget", {{"targetId", target.at("targetId")}, {"flatten", true}});
    if (session.is_object()) session_ = session.at("sessionId").as_string().c_str();
  }
  ~Browser() {
    if (in_ >= 0) ::close(in_);
    if (out_ >= 0) ::close(out_);
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  bool valid() const { return !session_.empty(); }
  std::string log() const { return refused_ + multi::contents(folder_.path() + "/log"); }

  // The result of a command; null if there is none.
  boost::json::value call(const std::string& method, boost::json::object parameters = {}) {
    const int id = ++last_;
    boost::json::object message = {{"id", id}, {"method", method}, {"params", parameters}};
    if (!session_.empty()) message["sessionId"] = session_;
    std::string text = boost::json::serialize(message);
    text.push_back('\0');
    if (::write(in_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return nullptr;
    const auto end = multi::Clock::now() + kPatience;
    std::string answer;
    while (receive(end, answer)) {
      const auto value = boost::json::parse(answer);
      const auto* number = value.as_object().if_contains("id");
      if (number == nullptr || number->to_number<int>() != id) continue;
      if (const auto* result = value.as_object().if_contains("result")) return *result;
      refused_ += method + ": " + answer + "\n";
      return nullptr;
    }
    refused_ += method + ": no answer\n";
    return nullptr;
  }
  // The value of an expression in the page.
  boost::json::value evaluate(const std::string& expression) {
    const auto result =
        call("Runtime.evaluate",
             {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
    if (!result.is_object()) return nullptr;
    const auto* value = result.at("result").as_object().if_contains("value");
    return value != nullptr ? *value : nullptr;
  }
  // Until the expression is true.
  bool wait_for(const std::string& expression) {
    const auto end = multi::Clock::now() + kPatience;
    while (multi::Clock::now() < end) {
      const auto value = evaluate(expression);
      if (value.is_bool() && value.as_bool()) return true;
      ::usleep(10'000);
    }
    return false;
  }
  std::string text(const std::string& expression) {
    const auto value = evaluate(expression);
    return value.is_string() ? std::string(value.as_string()) : boost::json::serialize(value);
  }
  // "mousePressed", "mouseMoved", "mouseReleased"; pages get them as pointer events.
  void mouse(const char* type, double x, double y) {
    call("Input.dispatchMouseEvent", {{"type", type},
                                      {"x", x},
                                      {"y", y},
                                      {"button", "left"},
                                      {"buttons", 1},
                                      {"clickCount", 1},
                                      {"pointerType", "mouse"}});
  }
  void key(const char* name, bool shift = false) {
    for (const char* type : {"keyDown", "keyUp"}) {
      call("Input.dispatchKeyEvent",
           {{"type", type}, {"key", name}, {"code", name}, {"modifiers", shift ? 8 : 0}});
    }
  }

 private:
  bool receive(multi::Clock::time_point end, std::string& message) {
    for (;;) {
      const size_t found = read_.find('\0');
      if (found != std::string::npos) {
        message = read_.substr(0, found);
        read_.erase(0, found + 1);
        return true;
      }
      const auto rest =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - multi::Clock::now());
      pollfd readable = {out_, POLLIN, 0};
      if (rest.count() <= 0 || ::poll(&readable, 1, static_cast<int>(rest.count())) <= 0) {
        return false;
      }
      char buffer[65536];
      const ssize_t length = ::read(out_, buffer, sizeof(buffer));
      if (length <= 0) return false;
      read_.append(buffer, static_cast<size_t>(length));
    }
  }

  multi::Folder folder_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, last_ = 0;
  std::string session_, read_, refused_;
};

}  // namespace neuron::serve_test

#endif
