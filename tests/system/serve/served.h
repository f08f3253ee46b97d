// SPDX-License-Identifier: Apache-2.0
// A neuron-serve with the digits model as a child process.
// One thread. Owns the process and a scratch folder; nothing waits longer than a minute.
#ifndef TESTS_SYSTEM_SERVE_SERVED_H
#define TESTS_SYSTEM_SERVE_SERVED_H

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/daemon.h"
#include "tests/system/serve/http_client.h"
#include "tests/system/serve/oracle.h"

namespace neuron::serve_test {

// Where the digits model is asked.
inline constexpr const char* kInfer = "/v1/models/digits/infer";

// A socket of this test for a server, as a service manager passes one.
class Listening {
 public:
  Listening() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_.get(), 64), 0);
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  uint16_t port() const { return port_; }
  // A neuron-serve that has the socket instead of this process.
  std::unique_ptr<test::Process> serve(const std::string& arguments, const std::string& log,
                                       const std::string& redirections = "") {
    const std::string script = "exec 3<&" + std::to_string(socket_.get()) + " " + redirections +
                               "; LISTEN_PID=$$ LISTEN_FDS=1 exec " +
                               test::built("bin/neuron-serve") + " " + arguments;
    auto process = std::make_unique<test::Process>(
        test::Words{"bash", "-c", script}, test::Environment{{"NEURON_EMULATOR", "trn1.2xlarge"}},
        log);
    socket_ = base::FileDescriptor();
    return process;
  }

 private:
  base::FileDescriptor socket_;
  uint16_t port_ = 0;
};

class Served {
 public:
  explicit Served(test::Words arguments = {}, test::Environment environment = {}, bool wait = true)
      : models(folder_.path("models")) {
    folder_.write("models/digits.json", "{\"batched\": true}");
    std::filesystem::copy_file(kDigits, models + "/digits.neff");
    start(std::move(arguments), std::move(environment), wait);
  }
  // Folders that the test has filled.
  Served(const std::string& filled, test::Words arguments, test::Environment environment)
      : models(filled) {
    start(std::move(arguments), std::move(environment), true);
  }
  Served(const test::Folder& folder, test::Words arguments, test::Environment environment)
      : Served(folder.path(), std::move(arguments), std::move(environment)) {}

  uint16_t port() const { return port_; }
  const std::string& address() const { return address_; }
  test::Process& process() { return *process_; }
  std::string log() const { return folder_.read("log"); }
  const std::string& folder() const { return folder_.path(); }
  Client client() const { return Client(port_); }
  // One that may do what needs a token elsewhere.
  Client control() const { return Client(folder_.path("control")); }
  Answer reload() const { return control().post("/v1/reload", ""); }
  Answer get(const std::string& path) const { return client().get(path); }
  Answer infer(const std::vector<Row>& rows) const {
    return client().post("/v1/models/digits/infer", binary(rows), "application/octet-stream");
  }
  // The value of a sample of /metrics, -1 if there is none.
  double metric(const std::string& sample) const {
    const std::string text = "\n" + get("/metrics").body;
    const size_t at = text.find("\nneuron_serve_" + sample + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + sample.size() + 14));
  }
  // Until the path answers with this status.
  bool wait_for(const std::string& path, unsigned status) const {
    return test::eventually([&] { return get(path).status == status; });
  }
  test::Ending ending() { return process_->wait(); }

 private:
  void start(test::Words arguments, test::Environment environment, bool wait) {
    test::Words command = {
        test::built("bin/neuron-serve"), "--models", models, "--listen", "127.0.0.1:0", "--control",
        folder_.path("control")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    environment.emplace("NEURON_EMULATOR", "trn1.2xlarge");
    process_ = std::make_unique<test::Process>(command, environment, folder_.path("log"));
    if (!wait) return;
    address_ = process_->line();
    const size_t colon = address_.rfind(':');
    if (address_.starts_with("http://") && colon != std::string::npos) {
      port_ = static_cast<uint16_t>(std::stoi(address_.substr(colon + 1)));
    }
  }

  test::Folder folder_;
  std::unique_ptr<test::Process> process_;
  std::string address_;
  uint16_t port_ = 0;

 public:
  const std::string models;
};

}  // namespace neuron::serve_test

#endif
