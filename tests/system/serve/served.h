// SPDX-License-Identifier: Apache-2.0
// A neuron-serve with the digits model as a child process, and what libnrt itself answers.
// One thread. Owns the process, a scratch folder and a runtime; nothing waits longer than a minute.
#ifndef TESTS_SYSTEM_SERVE_SERVED_H
#define TESTS_SYSTEM_SERVE_SERVED_H

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/daemon.h"
#include "tests/system/serve/http_client.h"

namespace neuron::serve_test {

using Row = std::array<float, 64>;
using Probabilities = std::array<float, 10>;

inline const std::string kDigits = test::built("neff/digits.neff");

// Pixels as digits have them, 0 to 16.
inline std::vector<Row> random_rows(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Row> rows(count);
  for (Row& row : rows) {
    for (float& pixel : row) pixel = static_cast<float>(random() % 17);
  }
  return rows;
}

inline std::string binary(const std::vector<Row>& rows) {
  return std::string(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(Row));
}

inline std::vector<Probabilities> probabilities(const std::string& bytes) {
  std::vector<Probabilities> result(bytes.size() / sizeof(Probabilities));
  std::memcpy(result.data(), bytes.data(), result.size() * sizeof(Probabilities));
  return result;
}

inline std::string json(const std::vector<Row>& rows) {
  std::string text = "{\"inputs\":{\"x\":[";
  for (const Row& row : rows) {
    text += &row == &rows[0] ? "[" : ",[";
    for (size_t i = 0; i < row.size(); ++i) {
      text += (i != 0 ? "," : "") + std::to_string(static_cast<int>(row[i]));
    }
    text += "]";
  }
  return text + "]}}";
}

// The answers of libnrt on a device of this process, row by row.
class Truth {
 public:
  static Truth& get() {
    static Truth truth;
    return truth;
  }
  bool valid() const { return valid_; }
  std::vector<Probabilities> of(const std::vector<Row>& rows) {
    std::vector<Probabilities> all;
    for (size_t first = 0; first < rows.size(); first += batch_) {
      const size_t count = std::min(batch_, rows.size() - first);
      std::vector<Row> x(batch_);
      std::copy_n(rows.begin() + static_cast<ptrdiff_t>(first), count, x.begin());
      std::vector<Probabilities> y(batch_);
      if (nrt_tensor_write(x_, x.data(), 0, batch_ * sizeof(Row)) != NRT_SUCCESS ||
          nrt_execute(model_, in_, out_) != NRT_SUCCESS ||
          nrt_tensor_read(y_, y.data(), 0, batch_ * sizeof(Probabilities)) != NRT_SUCCESS) {
        return {};
      }
      all.insert(all.end(), y.begin(), y.begin() + static_cast<ptrdiff_t>(count));
    }
    return all;
  }

 private:
  Truth() {
    ::setenv("NEURON_EMULATOR", "trn1.2xlarge", 0);  // for the rest of the process
    const std::string neff = test::read_file(kDigits);
    nrt_tensor_info_array_t* info = nullptr;
    if (nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS ||
        nrt_load(neff.data(), neff.size(), 0, -1, &model_) != NRT_SUCCESS ||
        nrt_get_model_tensor_info(model_, &info) != NRT_SUCCESS) {
      return;
    }
    batch_ = info->tensor_array[0].shape[0];
    nrt_free_model_tensor_info(info);
    valid_ = nrt_allocate_tensor_set(&in_) == NRT_SUCCESS &&
             nrt_allocate_tensor_set(&out_) == NRT_SUCCESS &&
             nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, batch_ * sizeof(Row), "x", &x_) ==
                 NRT_SUCCESS &&
             nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, batch_ * sizeof(Probabilities),
                                 "y", &y_) == NRT_SUCCESS &&
             nrt_add_tensor_to_tensor_set(in_, "x", x_) == NRT_SUCCESS &&
             nrt_add_tensor_to_tensor_set(out_, "probabilities", y_) == NRT_SUCCESS;
  }

  bool valid_ = false;
  size_t batch_ = 1;
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t *in_ = nullptr, *out_ = nullptr;
  nrt_tensor_t *x_ = nullptr, *y_ = nullptr;
};

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
    test::Words command = {test::built("bin/neuron-serve"), "--models", models, "--listen",
                           "127.0.0.1:0"};
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
