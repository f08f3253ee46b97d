// SPDX-License-Identifier: Apache-2.0
// A headless Chromium with one page, driven through its debugging pipe (DevTools protocol).
// One thread. Owns the process and its profile folder. Nothing waits longer than kPatience; a
// command that fails gives null, and `log()` says what the browser said.
#ifndef TESTS_SYSTEM_SERVE_BROWSER_H
#define TESTS_SYSTEM_SERVE_BROWSER_H

#include <boost/json.hpp>
#include <string>

#include "tests/support/daemon.h"

namespace neuron::serve_test {

class Browser {
 public:
  static constexpr std::chrono::seconds kPatience{40};

  // It listens on descriptor 3 and talks on 4, and has a group for the processes that it starts.
  explicit Browser(const std::string& url)
      : process_({"sh", "-c",
                  "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage"
                  " --no-first-run --disable-extensions --disable-background-networking"
                  " --window-size=1000,800 --remote-debugging-pipe --user-data-dir=" +
                      folder_.path("profile") + " about:blank 3<&0 4>&1 0</dev/null 1>&2"},
                 {{"HOME", folder_.path()}}, folder_.path("log"), test::Process::Group::kOwn) {
    const auto target = call("Target.createTarget", {{"url", url}});
    if (!target.is_object()) return;
    const auto session =
        call("Target.attachToTarget", {{"targetId", target.at("targetId")}, {"flatten", true}});
    if (session.is_object()) session_ = session.at("sessionId").as_string().c_str();
  }
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  bool valid() const { return !session_.empty(); }
  std::string log() const { return refused_ + folder_.read("log"); }

  // The result of a command; null if there is none.
  boost::json::value call(const std::string& method, boost::json::object parameters = {}) {
    const int id = ++last_;
    boost::json::object message = {{"id", id}, {"method", method}, {"params", parameters}};
    if (!session_.empty()) message["sessionId"] = session_;
    std::string text = boost::json::serialize(message);
    text.push_back('\0');
    if (!process_.write(text)) return nullptr;
    const auto deadline = base::Deadline::after(kPatience);
    while (const auto answer = process_.until('\0', deadline)) {
      const auto value = boost::json::parse(*answer);
      const auto* number = value.as_object().if_contains("id");
      if (number == nullptr || number->to_number<int>() != id) continue;
      if (const auto* result = value.as_object().if_contains("result")) return *result;
      refused_ += method + ": " + *answer + "\n";
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
    const auto holds = [&] {
      const auto value = evaluate(expression);
      return value.is_bool() && value.as_bool();
    };
    return test::eventually(holds, kPatience, std::chrono::milliseconds(10));
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
  test::Folder folder_;
  test::Process process_;
  int last_ = 0;
  std::string session_, refused_;
};

}  // namespace neuron::serve_test

#endif
