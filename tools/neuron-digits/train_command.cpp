// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-digits/train_command.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "tools/neuron-digits/failure_text.h"
#include "tools/neuron-digits/loss_curves.h"
#include "tools/neuron-digits/trainer.h"

namespace neuron::digits {
namespace {

struct Precision {
  const char* name;
  const char* neff;
};
constexpr std::array kPrecisions = {
    Precision{"fp32", "digits_training_f32.neff"},
    Precision{"bf16 nearest-even", "digits_training_bf16.neff"},
    Precision{"bf16 stochastic", "digits_training_bf16_sr.neff"},
};

bool load(Trainer& trainer, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return complain(path +
                    ": cannot be opened; `make` writes it, or give its folder with --models");
  }
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  return trainer.load(path, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}) ||
         complain(trainer.error());
}

// A file that grows line by line: if the program is stopped, the file holds whole lines.
class Lines {
 public:
  explicit Lines(std::string path)
      : path_(std::move(path)), file_(std::fopen(path_.c_str(), "w")) {}
  ~Lines() {
    if (file_) std::fclose(file_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  bool add(const std::string& lines) {
    if (file_ && std::fwrite(lines.data(), 1, lines.size(), file_) == lines.size() &&
        std::fflush(file_) == 0) {
      return true;
    }
    return complain(path_ + ": cannot be written: " + std::strerror(errno));
  }

 private:
  std::string path_;
  std::FILE* file_;
};

}  // namespace

bool train(const TrainOptions& options, std::span<const Digit> training,
           std::span<const Digit> unseen) {
  std::array<Trainer, kPrecisions.size()> trainers;
  std::vector<LossCurve> curves;
  for (size_t i = 0; i < kPrecisions.size(); ++i) {
    if (!load(trainers[i], options.models + "/" + kPrecisions[i].neff)) return false;
    curves.push_back({kPrecisions[i].name, {}});
  }
  Lines csv(options.output + "/loss.csv");
  if (!csv.add(csv_header(curves))) return false;
  std::printf("training on %zu digits, %u epochs, batches of %u, rate %g\n", training.size(),
              options.epochs, trainers[0].batch(), static_cast<double>(options.rate));
  const auto start = std::chrono::steady_clock::now();
  for (unsigned epoch = 0; epoch < options.epochs; ++epoch) {
    for (size_t i = 0; i < trainers.size(); ++i) {
      Evaluation evaluation;
      if (!trainers[i].train_epoch(training, epoch, options.rate) ||
          !trainers[i].evaluate(training, evaluation)) {
        return complain(std::string(kPrecisions[i].name) + ", epoch " + std::to_string(epoch + 1) +
                        ": " + trainers[i].error());
      }
      curves[i].losses.push_back(evaluation.loss);
    }
    if (!csv.add(csv_row(curves, epoch))) return false;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("\nmean cross entropy of the training digits after each epoch\n%s\n",
              draw_text(curves).c_str());
  for (size_t i = 0; i < trainers.size(); ++i) {
    Evaluation seen, fresh;
    if (!trainers[i].evaluate(training, seen) || !trainers[i].evaluate(unseen, fresh)) {
      return complain(std::string(kPrecisions[i].name) + ": " + trainers[i].error());
    }
    std::printf("%-18s loss %.4f; accuracy on unseen digits %.4f; model time of a step %.3f us\n",
                kPrecisions[i].name, seen.loss, fresh.accuracy, trainers[i].step_ps() / 1e6);
  }
  std::printf("host time %.1f s\n", seconds);
  const std::string path = options.output + "/loss.svg";
  Lines svg(path);
  if (!svg.add(draw_svg(curves, "Training the digits model on a NeuronCore"))) return false;
  std::printf("written: %s/loss.csv, %s\n", options.output.c_str(), path.c_str());
  return true;
}

}  // namespace neuron::digits
