// SPDX-License-Identifier: Apache-2.0
// neuron-digits: classifies handwritten digits that the model was not trained on, on a NeuronCore,
// and prints what happened: the device, the model, some digits, accuracy, model and host time,
// device memory. `neuron-digits train` trains the model there, see train_command.h; with --parallel
// on several cores, see parallel_command.h.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "tools/common/child_process.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/neuron-digits/classifier.h"
#include "tools/neuron-digits/parallel_command.h"
#include "tools/neuron-digits/train_command.h"

namespace {

using neuron::digits::Classifier;
using neuron::digits::Digit;

constexpr size_t kTrainingRows =
    1437;  // the model was trained on these; all later ones are new to it
const neuron::tools::Manual kManual{
    .name = "neuron-digits",
    .summary = "classify handwritten digits on a NeuronCore",
    .description =
        "Classifies digits that the model was not trained on, and prints what happened: the "
        "device, the model, some digits, accuracy, model and host time, device memory.",
    .exit_statuses = {neuron::tools::kDoneStatus,
                      {1, "there is no device, a file cannot be read, or an execution failed"},
                      neuron::tools::kUsageStatus},
    .environment = {neuron::tools::kEmulatorVariable},
    .see_also = {"neuron-ls(1)"}};
const char* const kEngines[] = {"Tensor", "Scalar", "GpSimd", "Vector", "Sync"};

int best(const std::array<float, 10>& probabilities) {
  return static_cast<int>(std::max_element(probabilities.begin(), probabilities.end()) -
                          probabilities.begin());
}

void print_device() {
  nrt_instance_info_t info{};
  uint32_t total = 0, visible = 0;
  nrt_get_total_vnc_count(&total);
  nrt_get_visible_vnc_count(&visible);
  if (nrt_get_instance_info(&info, sizeof info) == NRT_SUCCESS) {
    std::printf("device   %s, revision %s, %u NeuronCores, %u visible\n", info.arch_name,
                info.device_revision, total, visible);
  }
  nrt_version_t version{};
  if (nrt_get_version(&version, sizeof version) == NRT_SUCCESS) {
    std::printf("runtime  libnrt %lu.%lu.%lu.%lu\n", static_cast<unsigned long>(version.rt_major),
                static_cast<unsigned long>(version.rt_minor),
                static_cast<unsigned long>(version.rt_patch),
                static_cast<unsigned long>(version.rt_maintenance));
  }
}

void print_examples(std::span<const Digit> digits,
                    std::span<const std::array<float, 10>> probabilities) {
  constexpr size_t kShown = 6;
  const size_t shown = std::min(kShown, digits.size());
  std::array<std::array<std::string, 8>, kShown> pictures;
  for (size_t i = 0; i < shown; ++i) pictures[i] = neuron::digits::draw(digits[i]);
  std::printf("\n");
  for (int line = 0; line < 8; ++line) {
    for (size_t i = 0; i < shown; ++i) std::printf("  %s", pictures[i][line].c_str());
    std::printf("\n");
  }
  for (size_t i = 0; i < shown; ++i) {
    const int predicted = best(probabilities[i]);
    char text[32];
    std::snprintf(text, sizeof text, "%d (%.1f %%)%s", predicted, 100 * probabilities[i][predicted],
                  predicted == digits[i].label ? "" : " wrong");
    std::printf("  %-16s", text);
  }
  std::printf("\n\n");
}

bool print_report(Classifier& classifier, unsigned batches, double host_seconds) {
  nrt_open_execution_report_t report;
  if (!classifier.report(report)) return false;
  std::printf("model time of a batch %.3f us; busy:", report.device_ps / 1e6);
  for (int e = 0; e < NRT_OPEN_ENGINES; ++e) {
    std::printf(" %s %.3f us (%lu instructions)%s", kEngines[e], report.engines[e].busy_ps / 1e6,
                static_cast<unsigned long>(report.engines[e].instructions),
                e + 1 < NRT_OPEN_ENGINES ? "," : "\n");
  }
  std::printf(
      "host time of a batch  %.3f us in nrt_execute; %.3f us with writing and reading, mean of "
      "%u\n",
      report.host_ns / 1e3, host_seconds / batches * 1e6, batches);
  return true;
}

void print_memory() {
  nrt_open_memory_usage_t usage[32] = {};
  usage[0].size = sizeof usage[0];
  size_t count = std::size(usage);
  if (nrt_open_get_memory_usage(0, usage, &count) != NRT_SUCCESS) return;
  std::printf("HBM used by the core:");
  for (size_t i = 0; i < count; ++i) {
    std::printf("%s %s %lu KiB", i ? "," : "", usage[i].category,
                static_cast<unsigned long>(usage[i].bytes / 1024));
  }
  std::printf("\n");
}

int classify_all(Classifier& classifier, const std::vector<Digit>& digits) {
  const std::span<const Digit> unseen(digits.begin() + kTrainingRows, digits.end());
  std::vector<std::array<float, 10>> all;
  unsigned batches = 0;
  const auto start = std::chrono::steady_clock::now();
  for (size_t first = 0; first < unseen.size(); first += classifier.batch(), ++batches) {
    std::vector<std::array<float, 10>> part;
    const size_t rows = std::min<size_t>(classifier.batch(), unseen.size() - first);
    if (!classifier.classify(unseen.subspan(first, rows), part)) return -1;
    all.insert(all.end(), part.begin(), part.end());
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_examples(unseen, all);
  size_t right = 0;
  for (size_t i = 0; i < all.size(); ++i) right += best(all[i]) == unseen[i].label;
  std::printf("accuracy %.4f: %zu of %zu digits that the model was not trained on\n",
              static_cast<double>(right) / all.size(), right, all.size());
  if (!print_report(classifier, batches, seconds)) return -1;
  print_memory();
  return 0;
}

// Classifies the same digits again and again, so that operator tools can show the core at work.
bool go_on(Classifier& classifier, const std::vector<Digit>& digits, double seconds) {
  const auto unseen = std::span<const Digit>(digits).subspan(kTrainingRows);
  const auto start = std::chrono::steady_clock::now();
  double elapsed = 0;
  unsigned long batches = 0;
  for (; elapsed < seconds; ++batches) {
    std::vector<std::array<float, 10>> part;
    const size_t rows = std::min<size_t>(classifier.batch(), unseen.size());
    if (!classifier.classify(unseen.first(rows), part)) return false;
    elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::printf("went on for %.1f s: %lu batches, %.0f each second\n", elapsed, batches,
              batches / elapsed);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  neuron::tools::CommandLine line(kManual);
  using neuron::tools::program_beside;
  // In the build folder and in an installation.
  std::string model = program_beside("../neff/digits.neff");
  if (::access(model.c_str(), R_OK) != 0) {
    model = program_beside("../share/neuron/models/digits.neff");
  }
  std::string data = program_beside("../share/neuron/digits/digits.csv.gz");
  neuron::digits::TrainOptions options;
  line.option("--model", model, "NEFF of the classifier")
      .with_default("digits.neff of the installation");
  line.option("--data", data, "gzip of rows: 64 pixels of 0..16 and a label")
      .with_default("digits.csv.gz of the installation");
  double seconds = 0;
  line.option("--seconds", seconds, "Go on classifying for that long afterwards")
      .between(0.0, 86400.0);
  neuron::tools::Command train = line.command(
      "train", "Train the model in fp32, bf16 and bf16 with stochastic rounding; show the losses");
  train.options_anywhere();
  train.option("--models", options.models, "Folder of the training NEFFs").with_default();
  train.option("--output", options.output, "Folder for loss.csv and loss.svg").with_default();
  train.option("--epochs", options.epochs, "Passes over the training digits")
      .between(1, 100000)
      .with_default();
  train.option("--rate", options.rate, "Learning rate").between(1e-6, 10.0).with_default();
  bool parallel = false;
  neuron::digits::ParallelOptions of_all;
  neuron::tools::Option in_parallel =
      train.flag("--parallel", parallel,
                 "Train in fp32 on several cores that add up their gradients: those of this "
                 "process, or of all "
                 "processes that mpirun or srun has started, on one instance or on several");
  train.option("--cores", of_all.cores, "Cores of each process, with --parallel")
      .between(1u, 120u)
      .with_default()
      .needs(in_parallel);
  train.choice(
      "--on-failure", {"stop", "go-on"}, 0, [&](size_t word) { of_all.goes_on = word == 1; },
      "With --parallel, when a process or its device fails: all stop, or the others go on without "
      "it from the last epoch that all have");
  if (const auto status = line.parse(argc, argv)) return *status;

  std::string error;
  const std::vector<Digit> digits = neuron::digits::read_dataset(data, error);
  if (error.empty() && digits.size() <= kTrainingRows) {
    error = data + ": " + std::to_string(digits.size()) + " rows; the first " +
            std::to_string(kTrainingRows) + " were used for training, so more are needed";
  }
  if (!error.empty()) {
    std::fprintf(stderr, "neuron-digits: %s\n", error.c_str());
    return 1;
  }
  const std::span<const Digit> all(digits);
  const auto training = all.first(kTrainingRows), unseen = all.subspan(kTrainingRows);
  if (parallel) {
    of_all.epochs = options.epochs;
    of_all.rate = options.rate;
    const bool good = neuron::digits::train_parallel(of_all, training, unseen);
    return neuron::tools::finish_output("neuron-digits") && good ? 0 : 1;
  }
  if (NRT_STATUS s = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "")) {
    std::fprintf(stderr, "neuron-digits: no device: %s: %s\n", nrt_get_status_as_str(s),
                 nrt_open_last_error());
    return 1;
  }
  print_device();
  bool good;
  if (line.used("train")) {
    good = neuron::digits::train(options, training, unseen);
  } else {
    Classifier classifier;
    good = classifier.load(model);
    if (good) {
      std::printf("model    %s\n", model.c_str());
      for (const std::string& line : classifier.description()) {
        std::printf("         %s\n", line.c_str());
      }
      good = classify_all(classifier, digits) == 0 &&
             (seconds == 0 || go_on(classifier, digits, seconds));
    }
    if (!good) std::fprintf(stderr, "neuron-digits: %s\n", classifier.error().c_str());
  }
  nrt_close();
  return neuron::tools::finish_output("neuron-digits") && good ? 0 : 1;
}
