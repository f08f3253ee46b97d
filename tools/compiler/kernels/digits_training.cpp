// SPDX-License-Identifier: Apache-2.0
// One step of training the classifier of handwritten digits: forward, backward and update.
//
// 64 pixels -> 128 relu -> 10 softmax, cross entropy, plain gradient descent. The first layer's
// bias is row 64 of w1: every digit gets a 65th pixel that is 1. Each product needs its inner index
// on partitions, so x, the second layer's error and w2 are transposed on PE. Weights, activations
// and errors are of the step's type; sums, softmax and gradients are f32 in PSUM and SBUF. Only the
// update uses the rounding of the precision; everything else rounds to nearest even.
//
// The same step can be split for data-parallel training: a core has some rows of a batch and
// outputs the gradients of w1, w2 and b2, one behind the other, to be summed over all parts of the
// batch. The error is divided by the size of the whole batch, so that the sum is its gradient.
#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/short_names.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Rounding;
using builder::Tile;
using builder::TileAccess;

namespace {

constexpr uint32_t kTrainedPixels = 64;
constexpr uint32_t kInputs = kTrainedPixels + 1;
constexpr uint32_t kTrainedUnits = 128;
constexpr uint32_t kTrainedLabels = 10;
// Where the gradients of w1, w2 and b2 begin, and how many there are.
constexpr uint64_t kFirstOfW1 = 0;
constexpr uint64_t kFirstOfW2 = kFirstOfW1 + kInputs * kTrainedUnits;
constexpr uint64_t kFirstOfB2 = kFirstOfW2 + kTrainedUnits * kTrainedLabels;
constexpr uint64_t kGradients = kFirstOfB2 + kTrainedLabels;
constexpr float kTrainedScale = 0.0625F;  // Pixels are 0..16

// How the gradients are used.
enum class Gradients {
  kUsed,         // the weights are updated
  kStored,       // output "gradients"
  kAccumulated,  // added to input "sum", output "sum_next"
  kReduced,      // added up over all ranks, then used
};

class TrainingStep {
 public:
  TrainingStep(const std::string& name, uint8_t dtype, bool stochastic)
      : program_(name), dtype_(dtype), stochastic_(stochastic) {}
  // `rows` of a batch, in f32.
  TrainingStep(const std::string& name, uint32_t rows, Gradients gradients)
      : program_(name), rows_(rows), gradients_(gradients) {}
  Neff build();
  // The update alone, with the input "gradients".
  Neff build_update();

 private:
  struct Parameter {
    Tile now, next;
    Buffer output;
  };

  Tile sbuf(const char* name, uint32_t rows, uint32_t columns) {
    return program_.sbuf(name, rows, columns, dtype_);
  }
  Parameter parameter(const std::string& name, uint32_t rows, uint32_t columns);
  void fill_with_ones(const TileAccess& to);
  Tile transposed(const char* name, const Tile& from);
  void load();
  void forward();
  void softmax();
  void backward();
  void load_rate();
  void store(const Tile& gradient, uint64_t first);
  void reduce();
  bool updates() const {
    return gradients_ == Gradients::kUsed || gradients_ == Gradients::kReduced;
  }
  Tile stored(const Buffer& gradients, uint64_t first, const Tile& like);
  void update(const Parameter& parameter, const Tile& gradient);

  Program program_;
  uint8_t dtype_ = kF32;
  bool stochastic_ = false;
  uint32_t rows_ = kDigitsTrainingBatch;
  Gradients gradients_ = Gradients::kUsed;
  Buffer sum_, gradient_output_;
  Parameter w1_, w2_, b2_;
  Buffer loss_, probabilities_;
  Tile x_, wanted_, rate_, ones_, ones_row_, hidden_, error_, scores_;
};

TrainingStep::Parameter TrainingStep::parameter(const std::string& name, uint32_t rows,
                                                uint32_t columns) {
  const Buffer input = program_.input(name, dtype_, {rows, columns});
  Parameter result{sbuf(name.c_str(), rows, columns), {}, {}};
  if (updates()) {
    result.next = sbuf((name + " next").c_str(), rows, columns);
    result.output = program_.output(name + "_next", dtype_, {rows, columns});
  }
  program_.dma(Engine::kSp, result.now.all(), input.all());
  return result;
}

void TrainingStep::fill_with_ones(const TileAccess& to) {
  program_.memset(Engine::kPool, to, dtype_ == kF32 ? 0x3F800000u : 0x3F80u);
}

// Transposes through PSUM, which keeps the type.
Tile TrainingStep::transposed(const char* name, const Tile& from) {
  const Tile turned = program_.psum(name, from.columns, from.parts, dtype_);
  const Tile result = sbuf(name, from.columns, from.parts);
  program_.transpose(turned.all(), from.all());
  program_.tensor_copy(Engine::kDve, result.all(), turned.all());
  program_.release(turned);
  return result;
}

void TrainingStep::load_rate() {
  const Buffer rate = program_.input("rate", kF32, {1});
  rate_ = program_.sbuf("rate", kTrainedUnits, 1, kF32);
  program_.dma(Engine::kSp, rate_.all(), rate.broadcast(kTrainedUnits));
}

void TrainingStep::load() {
  program_.section("load");
  const Buffer pixels = program_.input("x", kF32, {rows_, kTrainedPixels});
  const Buffer labels = program_.input("wanted", kF32, {rows_, kTrainedLabels});
  const Tile raw = program_.sbuf("pixels", rows_, kTrainedPixels, kF32);
  program_.dma(Engine::kSp, raw.all(), pixels.all());
  w1_ = parameter("w1", kInputs, kTrainedUnits);
  w2_ = parameter("w2", kTrainedUnits, kTrainedLabels);
  b2_ = parameter("b2", 1, kTrainedLabels);
  wanted_ = program_.sbuf("wanted", rows_, kTrainedLabels, kF32);
  program_.dma(Engine::kSp, wanted_.all(), labels.all());
  if (updates()) load_rate();
  if (gradients_ == Gradients::kReduced) {
    // In a temporary, which other ranks can reach.
    gradient_output_ = program_.temporary("own gradients", kF32, {kGradients});
  } else if (gradients_ != Gradients::kUsed) {
    const bool adds = gradients_ == Gradients::kAccumulated;
    if (adds) sum_ = program_.input("sum", kF32, {kGradients});
    gradient_output_ = program_.output(adds ? "sum_next" : "gradients", kF32, {kGradients});
  }
  loss_ = program_.output("loss", kF32, {1});
  probabilities_ = program_.output("probabilities", kF32, {rows_, kTrainedLabels});
  x_ = sbuf("x", rows_, kInputs);
  ones_ = sbuf("ones", rows_, 1);
  ones_row_ = sbuf("row of ones", 1, rows_);
  fill_with_ones(x_.column_range(kTrainedPixels, 1));
  fill_with_ones(ones_.all());
  fill_with_ones(ones_row_.all());
  program_.activate(x_.column_range(0, kTrainedPixels), NEURON_ACT_COPY, raw.all(),
                    {.scale = kTrainedScale, .bias = {}});
}

// Computes the hidden units twice: with digits on partitions for the gradient of w2, and with units
// on partitions for the second layer. Two products are cheaper than a transpose between them.
void TrainingStep::forward() {
  program_.section("forward");
  const Tile x_turned = transposed("x transposed", x_);
  hidden_ = sbuf("hidden", rows_, kTrainedUnits);
  const Tile units = sbuf("hidden transposed", kTrainedUnits, rows_);
  const Tile sums = program_.psum("layer 1", rows_, kTrainedUnits);
  const Tile unit_sums = program_.psum("layer 1 transposed", kTrainedUnits, rows_);
  program_.matmul(sums.all(), x_turned.all(), w1_.now.all());
  program_.matmul(unit_sums.all(), w1_.now.all(), x_turned.all());
  program_.activate(hidden_.all(), NEURON_ACT_RELU, sums.all(), {});
  program_.activate(units.all(), NEURON_ACT_RELU, unit_sums.all(), {});
  scores_ = program_.psum("layer 2", rows_, kTrainedLabels);
  program_.matmul(scores_.all(), units.all(), w2_.now.all());
  program_.matmul(scores_.all(), ones_row_.all(), b2_.now.all(), true);
  program_.release(sums);
  program_.release(unit_sums);
}

// Probabilities, their error divided by the batch, and the mean cross entropy:
// log(sum exp(s - max)) - (s - max) of the wanted label.
void TrainingStep::softmax() {
  program_.section("softmax");
  const Tile lowered = program_.sbuf("negated maximum", rows_, 1, kF32);
  const Tile shifted = program_.sbuf("scores", rows_, kTrainedLabels, kF32);
  const Tile odds = program_.sbuf("exponentials", rows_, kTrainedLabels, kF32);
  const Tile sum = program_.sbuf("sum", rows_, 1, kF32);
  const Tile factor = program_.sbuf("factor", rows_, 1, kF32);
  const Tile shares = program_.sbuf("probabilities", rows_, kTrainedLabels, kF32);
  const Tile difference = program_.sbuf("difference", rows_, kTrainedLabels, kF32);
  program_.tensor_reduce(lowered.all(), NEURON_ALU_MAX, scores_.all(), 1, true);
  program_.tensor_scalar(Engine::kDve, shifted.all(), scores_.all(), NEURON_ALU_ADD, lowered.all());
  program_.activate(odds.all(), NEURON_ACT_EXP, shifted.all(),
                    {.scale = {}, .bias = {}, .reduce = NEURON_REDUCE_RESET_ACCUMULATE});
  program_.read_accumulator(Engine::kActivation, sum.all());
  program_.reciprocal(factor.all(), sum.all());
  program_.tensor_scalar(Engine::kDve, shares.all(), odds.all(), NEURON_ALU_MUL, factor.all());
  program_.dma(Engine::kPool, probabilities_.all(), shares.all());
  program_.tensor_tensor(Engine::kDve, difference.all(), shares.all(), NEURON_ALU_SUB,
                         wanted_.all());
  error_ = sbuf("error", rows_, kTrainedLabels);
  program_.tensor_scalar(Engine::kDve, error_.all(), difference.all(), NEURON_ALU_MUL,
                         1.0F / kDigitsTrainingBatch);

  const Tile chosen = program_.sbuf("chosen scores", rows_, kTrainedLabels, kF32);
  const Tile score = program_.sbuf("score of the label", rows_, 1, kF32);
  const Tile logarithm = program_.sbuf("logarithm of the sum", rows_, 1, kF32);
  const Tile losses = program_.sbuf("losses", rows_, 1, kF32);
  const Tile share = program_.sbuf("share of the batch", rows_, 1, kF32);
  const Tile total = program_.psum("loss", 1, 1);
  const Tile mean = program_.sbuf("mean loss", 1, 1, kF32);
  program_.tensor_tensor(Engine::kDve, chosen.all(), shifted.all(), NEURON_ALU_MUL, wanted_.all());
  program_.tensor_reduce(score.all(), NEURON_ALU_ADD, chosen.all());
  program_.activate(logarithm.all(), NEURON_ACT_LOG, sum.all(), {});
  program_.tensor_tensor(Engine::kDve, losses.all(), logarithm.all(), NEURON_ALU_SUB, score.all());
  program_.memset(Engine::kPool, share.all(), 0x3F800000u);
  program_.matmul(total.all(), losses.all(), share.all());
  program_.activate(mean.all(), NEURON_ACT_COPY, total.all(),
                    {.scale = 1.0F / kDigitsTrainingBatch, .bias = {}});
  program_.dma(Engine::kPool, loss_.all(), mean.all());
  program_.release(total);
  program_.release(scores_);
}

void TrainingStep::backward() {
  program_.section("backward");
  const Tile error_turned = transposed("error transposed", error_);
  const Tile w2_turned = transposed("w2 transposed", w2_.now);
  const Tile back = program_.psum("error of the hidden units", rows_, kTrainedUnits);
  const Tile masked = sbuf("error behind relu", rows_, kTrainedUnits);
  program_.matmul(back.all(), error_turned.all(), w2_turned.all());
  program_.scalar_tensor_tensor(masked.all(), hidden_.all(), NEURON_ALU_GT, 0.0F, NEURON_ALU_MUL,
                                back.all());
  program_.release(back);

  const Tile g1 = program_.psum("gradient of w1", kInputs, kTrainedUnits);
  const Tile g2 = program_.psum("gradient of w2", kTrainedUnits, kTrainedLabels);
  const Tile g3 = program_.psum("gradient of b2", 1, kTrainedLabels);
  program_.matmul(g2.all(), hidden_.all(), error_.all());
  program_.matmul(g3.all(), ones_.all(), error_.all());
  program_.matmul(g1.all(), x_.all(), masked.all());
  if (gradients_ != Gradients::kUsed) {
    program_.section("store");
    store(g2, kFirstOfW2);
    store(g3, kFirstOfB2);
    store(g1, kFirstOfW1);
    if (gradients_ == Gradients::kReduced) reduce();
    return;
  }
  program_.section("update");
  update(w2_, g2);
  update(b2_, g3);
  update(w1_, g1);
}

// Stores the gradient in HBM, or its sum with that of earlier parts of the batch.
void TrainingStep::store(const Tile& gradient, uint64_t first) {
  const Tile result = program_.sbuf("gradient", gradient.parts, gradient.columns, kF32);
  if (sum_.present()) {
    program_.tensor_tensor(Engine::kDve, result.all(), stored(sum_, first, gradient).all(),
                           NEURON_ALU_ADD, gradient.all());
  } else {
    program_.tensor_copy(Engine::kDve, result.all(), gradient.all());
  }
  program_.dma(Engine::kPool,
               gradient_output_.pattern(first, {gradient.columns, gradient.parts},
                                        {1, static_cast<int64_t>(gradient.columns)}),
               result.all());
}

// Reduces the gradients: each rank has those of its part of the batch and gets those of the whole.
void TrainingStep::reduce() {
  program_.section("reduce");
  const Buffer all = program_.temporary("gradients", kF32, {kGradients});
  program_.collective(Engine::kPool, CCOM_ALL_REDUCE, all, gradient_output_);
  program_.section("update");
  update(w2_, stored(all, kFirstOfW2, w2_.now));
  update(b2_, stored(all, kFirstOfB2, b2_.now));
  update(w1_, stored(all, kFirstOfW1, w1_.now));
}

// Loads one gradient, of the shape of `like`, from the row that holds all of them.
Tile TrainingStep::stored(const Buffer& gradients, uint64_t first, const Tile& like) {
  const Tile result = program_.sbuf("stored gradient", like.parts, like.columns, kF32);
  program_.dma(Engine::kSp, result.all(),
               gradients.pattern(first, {like.columns, like.parts},
                                 {1, static_cast<int64_t>(like.columns)}));
  return result;
}

// next = now - rate * gradient, in f32, rounded once into the weights' type.
void TrainingStep::update(const Parameter& parameter, const Tile& gradient) {
  if (stochastic_) program_.rounding(Rounding::kStochastic);
  program_.scalar_tensor_tensor(parameter.next.all(), gradient.all(), NEURON_ALU_MUL,
                                rate_.row_range(0, gradient.parts), NEURON_ALU_SUB,
                                parameter.now.all(), true);
  program_.rounding(Rounding::kNearestEven);
  program_.dma(Engine::kPool, parameter.output.all(), parameter.next.all());
}

Neff TrainingStep::build() {
  program_.rounding(Rounding::kNearestEven);
  load();
  forward();
  softmax();
  backward();
  return program_.build();
}

Neff TrainingStep::build_update() {
  program_.rounding(Rounding::kNearestEven);
  program_.section("load");
  const Buffer gradients = program_.input("gradients", kF32, {kGradients});
  load_rate();
  w1_ = parameter("w1", kInputs, kTrainedUnits);
  w2_ = parameter("w2", kTrainedUnits, kTrainedLabels);
  b2_ = parameter("b2", 1, kTrainedLabels);
  program_.section("update");
  update(w2_, stored(gradients, kFirstOfW2, w2_.now));
  update(b2_, stored(gradients, kFirstOfB2, b2_.now));
  update(w1_, stored(gradients, kFirstOfW1, w1_.now));
  return program_.build();
}

}  // namespace

Neff digits_training(const std::string& name, uint8_t dtype, bool stochastic) {
  if (dtype != kF32 && dtype != NEURON_DTYPE_BF16) {
    return runtime::fail(NRT_INVALID, "training step \"{}\" of {}; expected f32 or bf16", name,
                         isa::dtype_name(dtype));
  }
  return TrainingStep(name, dtype, stochastic).build();
}

Neff digits_gradients(const std::string& name, uint32_t rows, bool accumulate) {
  if (rows == 0 || rows > kDigitsTrainingBatch) {
    return runtime::fail(NRT_INVALID, "\"{}\" takes {} digits at once; expected 1 to {}", name,
                         rows, kDigitsTrainingBatch);
  }
  return TrainingStep(name, rows, accumulate ? Gradients::kAccumulated : Gradients::kStored)
      .build();
}

Neff digits_parallel(const std::string& name, uint32_t rows) {
  if (rows == 0 || rows > kDigitsTrainingBatch) {
    return runtime::fail(NRT_INVALID, "\"{}\" takes {} digits on each rank; expected 1 to {}", name,
                         rows, kDigitsTrainingBatch);
  }
  return TrainingStep(name, rows, Gradients::kReduced).build();
}

Neff digits_update(const std::string& name) {
  return TrainingStep(name, kDigitsTrainingBatch, Gradients::kUsed).build_update();
}

}  // namespace neuron::kernels
