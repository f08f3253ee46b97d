// SPDX-License-Identifier: Apache-2.0
// Two-dimensional convolution with a bias, then the maximum of windows.
//
// Channels are partitions. A filter of k x k is k^2 matrices. Each multiplies the image shifted by
// its place in the filter; the shift only changes the start of the moving operand. All of them and
// all tiles of input channels accumulate in one bank of PSUM. The maxima are taken from there; then
// the bias, which is equal within a window, is added to the maxima. The image is processed in bands
// of rows.
#include <algorithm>
#include <array>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/pairs.h"
#include "tools/compiler/kernels/short_names.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;
using runtime::fail;

namespace {

constexpr uint32_t kBandBytes = 32 << 10;  // Of a partition, for the image

class Convolution {
 public:
  Convolution(const std::string& name, uint8_t dtype, const ConvolutionShape& shape)
      : program_(name), dtype_(dtype), shape_(shape) {}
  Neff build();

 private:
  struct Set {
    std::vector<Tile> image;  // Input channels by 128
    std::vector<Tile> y;      // Output channels by 128
  };

  bool accepts() const;
  void allocate();
  void band(uint32_t image, const Piece& piece);
  void chunk(const Set& set, uint32_t row, uint32_t output);

  Program program_;
  uint8_t dtype_;
  ConvolutionShape shape_;
  uint32_t high_ = 0, wide_ = 0;  // Of the convolution
  uint32_t pooled_wide_ = 0;      // Of the result
  uint32_t chunk_rows_ = 0;       // Rows of one bank
  uint32_t band_rows_ = 0;        // Rows of the convolution in a band
  uint32_t ins_ = 0, outs_ = 0;   // Tiles of channels
  Buffer x_, filter_, bias_, y_;
  std::vector<Tile> filters_, biases_;
  std::array<Set, 2> sets_;
  std::array<Tile, 4> sums_;
  std::array<Tile, 4> pooled_;
  unsigned next_sum_ = 0;
};

bool Convolution::accepts() const {
  const auto [images, ins, outs, height, width, filter, window] = shape_;
  if (images == 0 || ins == 0 || outs == 0 || filter == 0 || window == 0) return false;
  if (dtype_ != NEURON_DTYPE_F32 && dtype_ != NEURON_DTYPE_BF16) return false;
  const auto whole = [](uint32_t channels) { return channels <= kParts || channels % kParts == 0; };
  if (!whole(ins) || !whole(outs) || height < filter || width < filter) return false;
  const uint32_t high = height - filter + 1, wide = width - filter + 1;
  return high % window == 0 && wide % window == 0 && wide <= kBank / window;
}

void Convolution::allocate() {
  const auto [images, ins, outs, height, width, filter, window] = shape_;
  const uint32_t parts_in = std::min(ins, kParts), parts_out = std::min(outs, kParts);
  const uint64_t area = uint64_t{filter} * filter;
  for (uint32_t i = 0; i < ins_; ++i) {
    filters_.push_back(
        program_.sbuf("filters", parts_in, static_cast<uint32_t>(area) * outs, dtype_));
    program_.dma(Engine::kActivation, filters_.back().all(),
                 filter_.pattern(uint64_t{i} * kParts * outs, {outs, area, parts_in},
                                 {1, int64_t{ins} * outs, outs}));
  }
  for (uint32_t o = 0; o < outs_; ++o) {
    biases_.push_back(program_.sbuf("bias", parts_out, 1, kF32));
    program_.dma(Engine::kActivation, biases_.back().all(),
                 bias_.pattern(uint64_t{o} * kParts, {1, parts_out}, {1, 1}));
  }
  const uint32_t rows = band_rows_ + filter - 1;
  for (Set& set : sets_) {
    for (uint32_t i = 0; i < ins_; ++i) {
      set.image.push_back(program_.sbuf("x", parts_in, rows * width, dtype_));
    }
    for (uint32_t o = 0; o < outs_; ++o) {
      set.y.push_back(program_.sbuf("y", parts_out, band_rows_ / window * pooled_wide_, dtype_));
    }
  }
  for (Tile& tile : sums_) tile = program_.psum("sums", parts_out, chunk_rows_ * wide_);
  for (Tile& tile : pooled_) {
    tile = program_.sbuf("maxima", parts_out, chunk_rows_ / window * pooled_wide_, kF32);
  }
}

// Rows [row, row + chunk_rows_) of the band, of tile `output` of the output channels.
void Convolution::chunk(const Set& set, uint32_t row, uint32_t output) {
  const auto [images, ins, outs, height, width, filter, window] = shape_;
  const uint32_t rows = std::min(chunk_rows_, band_rows_ - row);
  const uint32_t parts_in = std::min(ins, kParts), parts_out = std::min(outs, kParts);
  const Tile& sum = sums_[next_sum_ % sums_.size()];
  const Tile& maxima = pooled_[next_sum_++ % sums_.size()];
  bool first = true;
  for (uint32_t i = 0; i < ins_; ++i) {
    for (uint32_t place = 0; place < filter * filter; ++place) {
      const uint32_t down = place / filter, right = place % filter;
      program_.matmul(sum.at(0, parts_out, 0, rows * wide_),
                      filters_[i].at(0, parts_in, place * outs + output * kParts, parts_out),
                      set.image[i].pattern(0, parts_in, (row + down) * width + right, {wide_, rows},
                                           {1, static_cast<int32_t>(width)}),
                      !first);
      first = false;
    }
  }
  const uint32_t pooled = rows / window * pooled_wide_;
  const auto step = [](uint32_t elements) { return static_cast<int32_t>(elements); };
  const auto windows = sum.pattern(0, parts_out, 0, {window, window, pooled_wide_, rows / window},
                                   {1, step(wide_), step(window), step(window * wide_)});
  const auto result = set.y[output].at(0, parts_out, row / window * pooled_wide_, pooled);
  if (window == 1) {
    program_.activate(result, NEURON_ACT_COPY, sum.at(0, parts_out, 0, pooled),
                      {.bias = biases_[output].all()});
    return;
  }
  program_.tensor_reduce(maxima.column_range(0, pooled), NEURON_ALU_MAX, windows, 2);
  program_.activate(result, NEURON_ACT_COPY, maxima.column_range(0, pooled),
                    {.bias = biases_[output].all()});
}

void Convolution::band(uint32_t image, const Piece& piece) {
  const auto [images, ins, outs, height, width, filter, window] = shape_;
  const Set& set = sets_[piece.set];
  const uint64_t element = isa::dtype_bytes(dtype_), pixels = uint64_t{height} * width;
  const uint64_t results = uint64_t{high_ / window} * pooled_wide_;
  const uint64_t in_band = uint64_t{band_rows_} * width;
  const uint64_t out_band = uint64_t{band_rows_ / window} * pooled_wide_;
  for (uint32_t i = 0; i < ins_; ++i) {
    const Tile& tile = set.image[i];
    program_.dma(Engine::kSp, tile.all(),
                 x_.pattern((uint64_t{image} * ins + i * kParts) * pixels + piece.first * in_band,
                            {tile.columns, tile.parts}, {1, static_cast<int64_t>(pixels)})
                     .advancing(piece.step * static_cast<int64_t>(in_band * element)));
  }
  for (uint32_t o = 0; o < outs_; ++o) {
    for (uint32_t row = 0; row < band_rows_; row += chunk_rows_) chunk(set, row, o);
    const Tile& tile = set.y[o];
    program_.dma(
        Engine::kPool,
        y_.pattern((uint64_t{image} * outs + o * kParts) * results + piece.first * out_band,
                   {tile.columns, tile.parts}, {1, static_cast<int64_t>(results)})
            .advancing(piece.step * static_cast<int64_t>(out_band * element)),
        tile.all());
  }
}

Neff Convolution::build() {
  const auto [images, ins, outs, height, width, filter, window] = shape_;
  if (!accepts()) {
    return fail(NRT_INVALID,
                "convolution \"{}\" of {} images of [{}, {}, {}] with filters of {} x {} to {} "
                "channels and windows of {}, {}; expected f32 or bf16, up to 128 channels or a "
                "multiple of 128, an image that is no smaller than the filter, windows that divide "
                "the convolved image, and window x width of that of at most {}",
                program_.name(), images, ins, height, width, filter, filter, outs, window,
                isa::dtype_name(dtype_), kBank);
  }
  high_ = height - filter + 1;
  wide_ = width - filter + 1;
  pooled_wide_ = wide_ / window;
  ins_ = (ins + kParts - 1) / kParts;
  outs_ = (outs + kParts - 1) / kParts;
  chunk_rows_ = std::min(high_, kBank / wide_ / window * window);
  // The most windows of rows that divide the image into equal bands and fit; one always does.
  const uint64_t row_bytes = uint64_t{width} * ins_ * isa::dtype_bytes(dtype_);
  band_rows_ = window;
  for (uint32_t rows = window; rows <= high_; rows += window) {
    if (high_ % rows == 0 && (rows + filter - 1) * row_bytes <= kBandBytes) band_rows_ = rows;
  }
  chunk_rows_ = std::min(chunk_rows_, band_rows_);
  x_ = program_.input("x", dtype_, {images, ins, height, width});
  filter_ = program_.input("filter", dtype_, {filter, filter, ins, outs});
  bias_ = program_.input("bias", kF32, {outs});
  y_ = program_.output("y", dtype_, {images, outs, high_ / window, pooled_wide_});
  program_.section("filters");
  allocate();
  for (uint32_t image = 0; image < images; ++image) {
    for_pairs(program_, "image_" + std::to_string(image) + "_band", high_ / band_rows_,
              [&](const Piece& piece) { band(image, piece); });
  }
  return program_.build();
}

}  // namespace

Neff convolution(const std::string& name, uint8_t dtype, const ConvolutionShape& shape) {
  return Convolution(name, dtype, shape).build();
}

}  // namespace neuron::kernels
