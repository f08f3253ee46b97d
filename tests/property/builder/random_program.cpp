// SPDX-License-Identifier: Apache-2.0
#include "tests/property/builder/random_program.h"

#include <algorithm>

namespace neuron::property {
namespace {

using builder::Engine;
using Kind = Statement::Kind;

constexpr uint32_t kMask = 0xFFFF;
constexpr uint32_t kFactors = 3;            // The bits of a word that products have
constexpr uint32_t kPlaces = kColumns - 1;  // That gathers have as places of a row
constexpr uint32_t kFetched = 511;          // As rows of a buffer
static_assert(kFetched < kBlocks * kRows);
constexpr uint32_t kExact = 1 << 24;  // All integers up to it are numbers of f32
// Only what happens once writes it.
constexpr uint32_t kResident = kTiles - 1;

class Maker {
 public:
  Maker(uint32_t seed, uint32_t operations, uint32_t functions)
      : random_(seed), left_(operations), wanted_functions_(functions) {
    for (uint32_t i = 0; i < kNumbers; ++i) program_.most[i] = 1 + below(4);
    for (uint32_t& word : program_.table) word = below(6);
  }

  RandomProgram make() {
    for (uint32_t f = 0; f < wanted_functions_; ++f) {
      in_function_ = true;
      prepares_ = true;
      functions_ = f;
      calls_inside_ = 0;
      program_.functions.push_back(body(has_many() ? 1 + below(4) : 20 + below(20), 0));
      if (has_many()) program_.functions.back().push_back(prepared_load());
      calls_.push_back(calls_inside_);
    }
    in_function_ = false;
    functions_ = wanted_functions_;
    constexpr uint32_t kLeastOfMain = 200;  // So that all are called
    if (has_many()) left_ = std::max(left_, kLeastOfMain);
    prepares_ = true;
    for (uint32_t i = 0; i < kNumbers; ++i) {
      Statement set;
      set.kind = Kind::kSet;
      set.number = i;
      set.value = below(program_.most[i] + 2);
      program_.main.push_back(set);
    }
    while (left_ > 0) {
      auto more = body(std::min(left_, 200U), 0);
      program_.main.insert(program_.main.end(), more.begin(), more.end());
    }
    program_.operations = made_;
    return std::move(program_);
  }

 private:
  struct Open {
    uint32_t loop = 0, most = 0;
  };

  uint32_t below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }
  bool one_of(uint32_t count) { return below(count) == 0; }

  // Moves that keep [first, first + size) below `end`.
  std::vector<Move> moves(uint32_t& first, uint32_t size, uint32_t end, bool numbers) {
    std::vector<Move> list;
    int32_t low = 0, high = 0;
    const auto add = [&](Reference index, uint32_t most) {
      const int32_t step = static_cast<int32_t>(below(7)) - 3;
      const int32_t far = step * static_cast<int32_t>(most);
      const int32_t new_low = low + std::min(far, 0), new_high = high + std::max(far, 0);
      if (step == 0 ||
          new_high - new_low + static_cast<int32_t>(size) > static_cast<int32_t>(end)) {
        return;
      }
      low = new_low;
      high = new_high;
      list.push_back({index, step});
    };
    for (const Open& open : open_) {
      if (list.size() < 2 && one_of(2)) add({false, open.loop}, open.most);
    }
    if (numbers && one_of(4)) {
      const uint32_t number = below(kNumbers);
      add({true, number}, program_.most[number]);
    }
    const uint32_t least = static_cast<uint32_t>(-low);
    first = least + below(end - size - static_cast<uint32_t>(high) - least + 1);
    return list;
  }

  Place window(uint32_t tile, bool numbers = true) {
    Place place;
    place.which = tile;
    place.moves = moves(place.first, kWindow, kColumns, numbers);
    return place;
  }

  Place block(bool numbers) {
    Place place;
    place.which = below(kBuffers);
    place.moves = moves(place.first, 1, kBlocks, numbers);
    return place;
  }

  uint32_t other_than(uint32_t tile) {
    const uint32_t other = below(kTiles - 1);
    return other == tile ? kTiles - 1 : other;
  }

  bool has_many() const { return wanted_functions_ > kFunctions; }

  // A core has fourteen queues: for the queue sets, and for each function. Only if these are too
  // few, functions share some, and then several engines may start their transfers.
  Engine transfer_engine() {
    constexpr Engine kOwners[] = {Engine::kSp, Engine::kActivation, Engine::kPool};
    if (!in_function_) return kOwners[below(2)];
    return has_many() ? kOwners[below(3)] : Engine::kSp;
  }

  // Engines keep few loops around each other, those around calls included.
  bool add_call(std::vector<Statement>& list, uint32_t depth) {
    constexpr uint32_t kMostCalls = 2;
    if (functions_ == 0) return false;
    const uint32_t called = below(functions_);
    if (has_many()) {
      const uint32_t calls = 1 + calls_[called];
      if (depth > 1 || calls > kMostCalls) return false;
      calls_inside_ = std::max(calls_inside_, calls);
    }
    list.emplace_back();
    list.back().kind = Kind::kCall;
    list.back().value = called;
    --left_;
    return true;
  }

  Statement operation() {
    Statement s;
    const uint32_t to = below(kTiles - 1);
    const bool prepared = prepares_ && !one_of(5);
    switch (below(18)) {
      case 12:
      case 13:
        s.kind = Kind::kProduct;
        s.to.which = below(kBanks);
        s.value = below(2);
        s.op = below(2) ? NEURON_DTYPE_BF16 : NEURON_DTYPE_F32;
        s.a = window(below(kTiles));
        s.b = window(below(kTiles));
        break;
      case 14:
        s.kind = Kind::kEvict;
        s.engine = one_of(2) ? Engine::kDve : Engine::kActivation;
        s.to = window(to);
        s.a.which = below(kBanks);
        break;
      case 15: {
        constexpr uint8_t kOps[] = {NEURON_ALU_MAX, NEURON_ALU_MIN, NEURON_ALU_XOR, NEURON_ALU_OR,
                                    NEURON_ALU_AND};
        s.kind = one_of(3) ? Kind::kReduceRows : Kind::kReduce;
        s.op = kOps[below(5)];
        s.to = window(to);
        s.a = window(other_than(to));
        break;
      }
      case 16:
        s.kind = Kind::kGather;
        s.to = window(to);
        s.a.which = other_than(to);
        s.b = window(other_than(to));
        break;
      case 17:
        s.kind = Kind::kFetch;
        s.to = window(to);
        s.a.which = below(kBuffers);
        s.b = window(below(kTiles));
        break;
      case 0:
        s.kind = Kind::kFill;
        s.engine = one_of(2) ? Engine::kDve : Engine::kPool;
        s.to = window(to);
        s.value = below(kMask + 1);
        break;
      case 1:
      case 2:
      case 3: {
        constexpr Engine kCopiers[] = {Engine::kActivation, Engine::kPool, Engine::kDve};
        s.kind = Kind::kCopy;
        s.engine = kCopiers[below(3)];
        s.to = window(to);
        s.a = window(other_than(to));
        break;
      }
      case 4:
      case 5:
      case 6:
        s.kind = Kind::kXor;
        s.engine = one_of(2) ? Engine::kDve : Engine::kPool;
        s.to = window(to);
        s.a = window(other_than(to));
        s.b = window(other_than(to));
        break;
      case 7:
      case 8:
        s.kind = Kind::kLoad;
        s.generated = !prepared;
        s.engine = transfer_engine();
        s.to = window(to, s.generated);
        s.a = block(s.generated);
        break;
      case 9:
        s.kind = Kind::kStore;
        s.generated = !prepared;
        s.engine = transfer_engine();
        s.to = block(s.generated);
        s.a = window(below(kTiles), s.generated);
        break;
      default:
        number_operation(s);
    }
    return s;
  }

  // So that each of many functions has a ring.
  Statement prepared_load() {
    Statement s;
    s.kind = Kind::kLoad;
    s.engine = transfer_engine();
    s.to = window(below(kTiles - 1), false);
    s.a = block(false);
    return s;
  }

  // Of a word.
  Place fixed(uint32_t tile) {
    Place place;
    place.which = tile;
    place.first = below(kColumns - kWindow + 1);
    return place;
  }

  void number_operation(Statement& s) {
    s.number = below(kNumbers);
    switch (below(4)) {
      case 0:
        s.kind = Kind::kSet;
        s.value = below(program_.most[s.number] + 2);
        return;
      case 1: {
        constexpr uint8_t kOps[] = {NEURON_ALU_ADD, NEURON_ALU_SUB, NEURON_ALU_MUL,
                                    NEURON_ALU_XOR, NEURON_ALU_MIN, NEURON_ALU_MAX};
        s.kind = Kind::kAlu;
        s.op = kOps[below(6)];
        s.left = some_index();
        s.with_number = one_of(2);
        s.right = some_index();
        s.value = below(4);
        return;
      }
      case 2:
        s.kind = Kind::kRead;
        s.with_number = one_of(2);  // From the table
        s.value = below(kTable);
        s.a = fixed(below(kTiles));
        return;
      default:
        s.kind = Kind::kWrite;
        s.to = fixed(below(kTiles - 1));
        s.left = some_index();
    }
  }

  Reference some_index() {
    if (!open_.empty() && one_of(2)) return {false, open_[below(open_.size())].loop};
    return {true, below(kNumbers)};
  }

  std::vector<Statement> body(uint32_t most, uint32_t depth) {
    std::vector<Statement> list;
    const uint32_t count = 1 + below(most);
    while (made_here(list) < count && left_ > 0) {
      const bool more = depth < 3 && weight_ < 200;
      if (has_many() && one_of(3) && add_call(list, depth)) continue;
      switch (more ? below(40) : 39) {
        case 0:
        case 1:
        case 2:
        case 3:
          list.push_back(loop(false, depth));
          break;
        case 4:
          list.push_back(loop(true, depth));
          break;
        case 5:
        case 6:
          list.push_back(when(depth));
          break;
        case 7:
          add_call(list, depth);
          break;
        case 8:
          list.emplace_back();
          break;
        case 9:
          if (in_function_ || depth != 0) break;
          list.push_back(once());
          break;
        default:
          list.push_back(operation());
          --left_;
          ++made_;
      }
    }
    return list;
  }

  static uint32_t made_here(const std::vector<Statement>& list) {
    return static_cast<uint32_t>(list.size());
  }

  Statement loop(bool counted, uint32_t depth) {
    Statement s;
    s.kind = counted ? Kind::kCount : Kind::kLoop;
    s.loop = program_.loops++;
    s.value = 1 + below(4);
    s.number = below(kNumbers);
    const uint32_t rounds = counted ? program_.most[s.number] : s.value;
    const bool before = prepares_;
    prepares_ = prepares_ && !counted;
    const uint32_t weight = weight_;
    weight_ *= rounds;
    open_.push_back({s.loop, rounds - 1});
    s.body = body(12, depth + 1);
    open_.pop_back();
    weight_ = weight;
    prepares_ = before;
    return s;
  }

  Statement when(uint32_t depth) {
    constexpr builder::Compare kCompares[] = {
        builder::Compare::kEqual,  builder::Compare::kNotEqual, builder::Compare::kLess,
        builder::Compare::kAtMost, builder::Compare::kGreater,  builder::Compare::kAtLeast};
    Statement s;
    s.kind = Kind::kWhen;
    s.left = some_index();
    s.compare = kCompares[below(6)];
    s.value = below(4);
    const bool before = prepares_;
    prepares_ = false;
    s.body = body(8, depth + 1);
    if (one_of(2)) s.otherwise = body(8, depth + 1);
    prepares_ = before;
    return s;
  }

  Statement once() {
    Statement s;
    s.kind = Kind::kOnce;
    Statement fill;
    fill.kind = Kind::kFill;
    fill.engine = one_of(2) ? Engine::kDve : Engine::kPool;
    fill.to.which = kResident;
    fill.to.first = resident_ * kWindow % kColumns;
    fill.value = 0x5000 + fill.to.first;
    ++resident_;
    s.body.push_back(fill);
    return s;
  }

  std::mt19937 random_;
  RandomProgram program_;
  uint32_t left_ = 0, made_ = 0;
  std::vector<Open> open_;
  const uint32_t wanted_functions_;
  bool prepares_ = true, in_function_ = false;
  // Calls inside of each other, of the functions that are made and of the present one.
  std::vector<uint32_t> calls_;
  uint32_t calls_inside_ = 0;
  uint32_t functions_ = 0;  // That may be called
  uint32_t weight_ = 1;     // How often the present body happens, at most
  uint32_t resident_ = 0;
};

// The first value of a word.
uint32_t initial(uint32_t tile) { return 0x100 + tile; }

class Interpreter {
 public:
  explicit Interpreter(const RandomProgram& program) : program_(program) {
    tiles_.resize(kTileWords);
    buffers_.resize(kBufferWords);
    loops_.resize(program.loops);
  }

  // What happens once leaves its tile as it is for later executions.
  Memory run() {
    for (uint32_t t = 0; t < kTiles; ++t) {
      if (t == kResident && !first_) continue;
      std::fill_n(tiles_.begin() + ptrdiff_t{t} * kRows * kColumns, kRows * kColumns, initial(t));
    }
    for (uint32_t b = 0; b < kBuffers; ++b) {
      std::fill_n(buffers_.begin() + ptrdiff_t{b} * kBlocks * kRows * kWindow,
                  kBlocks * kRows * kWindow, initial(b));
    }
    numbers_.fill(0);
    for (auto& bank : banks_) bank.fill(0);
    run(program_.main);
    first_ = false;
    if (!exact_) return {};
    Memory all = tiles_;
    all.insert(all.end(), buffers_.begin(), buffers_.end());
    return all;
  }

 private:
  uint32_t value_of(Reference index) const {
    return index.number ? numbers_[index.which] : loops_[index.which];
  }
  uint32_t first_of(const Place& place) const {
    int64_t first = place.first;
    for (const Move& move : place.moves) first += int64_t{move.step} * value_of(move.index);
    return static_cast<uint32_t>(first);
  }
  uint32_t& tile(const Place& place, uint32_t row, uint32_t column) {
    return tiles_[(place.which * kRows + row) * kColumns + first_of(place) + column];
  }
  uint32_t& block(const Place& place, uint32_t row, uint32_t column) {
    return buffers_[((place.which * kBlocks + first_of(place)) * kRows + row) * kWindow + column];
  }
  template <typename Do>
  static void each(Do act) {
    for (uint32_t row = 0; row < kRows; ++row) {
      for (uint32_t column = 0; column < kWindow; ++column) act(row, column);
    }
  }
  void assign(uint32_t number, uint32_t value) {
    numbers_[number] = std::min(value, program_.most[number]);
  }

  static uint32_t compute(uint32_t op, uint32_t a, uint32_t b) {
    switch (op) {
      case NEURON_ALU_ADD:
        return a + b;
      case NEURON_ALU_SUB:
        return a - b;
      case NEURON_ALU_MUL:
        return a * b;
      case NEURON_ALU_XOR:
        return a ^ b;
      case NEURON_ALU_OR:
        return a | b;
      case NEURON_ALU_AND:
        return a & b;
      case NEURON_ALU_MIN:
        return std::min(a, b);
      default:
        return std::max(a, b);
    }
  }

  static bool holds(builder::Compare compare, uint32_t a, uint32_t b) {
    switch (compare) {
      case builder::Compare::kEqual:
        return a == b;
      case builder::Compare::kNotEqual:
        return a != b;
      case builder::Compare::kLess:
        return a < b;
      case builder::Compare::kAtMost:
        return a <= b;
      case builder::Compare::kGreater:
        return a > b;
      default:
        return a >= b;
    }
  }

  void run(const std::vector<Statement>& list) {
    for (const Statement& s : list) run(s);
  }

  void run(const Statement& s) {
    switch (s.kind) {
      case Kind::kFill:
        return each([&](uint32_t r, uint32_t c) { tile(s.to, r, c) = s.value; });
      case Kind::kCopy:
        return each([&](uint32_t r, uint32_t c) { tile(s.to, r, c) = tile(s.a, r, c); });
      case Kind::kXor:
        return each(
            [&](uint32_t r, uint32_t c) { tile(s.to, r, c) = tile(s.a, r, c) ^ tile(s.b, r, c); });
      case Kind::kLoad:
        return each([&](uint32_t r, uint32_t c) { tile(s.to, r, c) = block(s.a, r, c); });
      case Kind::kStore:
        return each([&](uint32_t r, uint32_t c) { block(s.to, r, c) = tile(s.a, r, c); });
      case Kind::kProduct:
        return multiply(s);
      case Kind::kEvict:
        for (uint32_t r = 0; r < kWindow; ++r) {
          for (uint32_t c = 0; c < kWindow; ++c) {
            tile(s.to, r, c) = banks_[s.a.which][r * kWindow + c];
          }
        }
        return;
      case Kind::kReduce:
        for (uint32_t r = 0; r < kRows; ++r) {
          uint32_t value = tile(s.a, r, 0);
          for (uint32_t c = 1; c < kWindow; ++c) value = compute(s.op, value, tile(s.a, r, c));
          tile(s.to, r, 0) = value;
        }
        return;
      case Kind::kReduceRows:
        for (uint32_t c = 0; c < kWindow; ++c) {
          uint32_t value = 0;
          for (uint32_t r = 0; r < kRows; ++r) value = std::max(value, tile(s.a, r, c));
          tile(s.to, 0, c) = value;
        }
        return;
      case Kind::kGather:
        return each([&](uint32_t r, uint32_t c) {
          const uint32_t place = tile(s.b, r, c) & kPlaces;
          tile(s.to, r, c) = tiles_[(s.a.which * kRows + r) * kColumns + place];
        });
      case Kind::kFetch:
        return fetch(s);
      case Kind::kSet:
        return assign(s.number, s.value);
      case Kind::kAlu:
        return assign(s.number,
                      compute(s.op, value_of(s.left), s.with_number ? value_of(s.right) : s.value));
      case Kind::kRead:
        return assign(s.number, s.with_number ? program_.table[s.value] : tile(s.a, 0, 0));
      case Kind::kWrite:
        tile(s.to, 0, 0) = value_of(s.left);
        return;
      case Kind::kLoop:
      case Kind::kCount: {
        const uint32_t rounds = s.kind == Kind::kLoop ? s.value : numbers_[s.number];
        for (uint32_t round = 0; round < rounds; ++round) {
          loops_[s.loop] = round;
          run(s.body);
        }
        return;
      }
      case Kind::kWhen:
        return run(holds(s.compare, value_of(s.left), s.value) ? s.body : s.otherwise);
      case Kind::kCall:
        return run(program_.functions[s.value]);
      case Kind::kBarrier:
        return;
      case Kind::kOnce:
        if (first_) run(s.body);
        return;
    }
  }

  void multiply(const Statement& s) {
    auto& bank = banks_[s.to.which];
    for (uint32_t m = 0; m < kWindow; ++m) {
      for (uint32_t n = 0; n < kWindow; ++n) {
        uint32_t& sum = bank[m * kWindow + n];
        if (s.value == 0) sum = 0;
        for (uint32_t k = 0; k < kRows; ++k) {
          sum += (tile(s.a, k, m) & kFactors) * (tile(s.b, k, n) & kFactors);
        }
        exact_ = exact_ && sum < kExact;
      }
    }
  }

  // All rows are there before the first one is written.
  void fetch(const Statement& s) {
    std::array<uint32_t, kRows> rows{};
    for (uint32_t r = 0; r < kRows; ++r) rows[r] = tile(s.b, r, 0) & kFetched;
    each([&](uint32_t r, uint32_t c) {
      tile(s.to, r, c) = buffers_[(s.a.which * kBlocks * kRows + rows[r]) * kWindow + c];
    });
  }

  const RandomProgram& program_;
  bool first_ = true, exact_ = true;
  Memory tiles_, buffers_;
  std::array<std::array<uint32_t, kWindow * kWindow>, kBanks> banks_{};
  std::array<uint32_t, kNumbers> numbers_{};
  std::vector<uint32_t> loops_;
};

class Writer {
 public:
  Writer(const RandomProgram& random, builder::Program& program)
      : random_(random), program_(program), control_(program.control()) {
    loops_.resize(random.loops);
  }

  void run() {
    constexpr uint8_t kType = NEURON_DTYPE_U32;
    const builder::Buffer out_tiles = program_.output("tiles", kType, {kTiles * kRows, kColumns});
    const builder::Buffer out_buffers =
        program_.output("buffers", kType, {kBuffers * kBlocks * kRows, kWindow});
    std::vector<uint8_t> words;
    for (uint32_t word : random_.table) {
      for (unsigned byte = 0; byte < 4; ++byte) {
        words.push_back(static_cast<uint8_t>(word >> (8 * byte)));
      }
    }
    table_ = program_.constant("table", kType, {kTable}, words);
    for (uint32_t t = 0; t < kTiles; ++t) {
      tiles_.push_back(program_.sbuf("tile" + std::to_string(t), kRows, kColumns, kType));
      const auto fill = [&] {
        program_.memset(t % 2 ? Engine::kDve : Engine::kPool, tiles_.back().all(), initial(t));
      };
      t == kResident ? control_.once(fill) : fill();
    }
    for (uint32_t b = 0; b < kBuffers; ++b) {
      buffers_.push_back(
          program_.temporary("buffer" + std::to_string(b), kType, {kBlocks * kRows, kWindow}));
      const builder::Tile tile = program_.sbuf("first", kRows, kWindow, kType);
      program_.memset(Engine::kDve, tile.all(), initial(b));
      for (uint32_t block = 0; block < kBlocks; ++block) {
        program_.dma(Engine::kSp, buffers_.back().block(block * kRows, kRows, 0, kWindow),
                     tile.all());
      }
    }
    // Zeros, so that each bank holds a sum of PE before the first product adds to it.
    for (uint32_t n = 0; n < kScratch; ++n) {
      scratch_[n] = program_.sbuf("scratch", kRows, kWindow, kType);
      program_.memset(Engine::kDve, scratch_[n].all(), 0);
      for (const uint8_t type : {NEURON_DTYPE_BF16, NEURON_DTYPE_F32}) {
        builder::Tile& tile = type == NEURON_DTYPE_F32 ? factors_[n] : short_factors_[n];
        tile = program_.sbuf("factors", kRows, kWindow, type);
        program_.memset(Engine::kPool, tile.all(), 0);
      }
    }
    for (builder::Tile& bank : banks_) {
      bank = program_.psum("sum", kWindow, kWindow);
      program_.matmul(bank.all(), factors_[0].all(), factors_[1].all());
    }
    for (uint32_t n = 0; n < kNumbers; ++n) {
      numbers_.push_back(control_.number("n" + std::to_string(n), random_.most[n]));
      control_.set(numbers_.back(), 0);
    }
    for (size_t f = 0; f < random_.functions.size(); ++f) {
      functions_.push_back(
          control_.function("f" + std::to_string(f), [&] { list(random_.functions[f]); }));
    }
    list(random_.main);
    for (uint32_t t = 0; t < kTiles; ++t) {
      program_.dma(Engine::kSp, out_tiles.block(t * kRows, kRows, 0, kColumns), tiles_[t].all());
    }
    for (uint32_t b = 0; b < kBuffers; ++b) {
      program_.dma(Engine::kPool,
                   out_buffers.block(uint64_t{b} * kBlocks * kRows, kBlocks * kRows, 0, kWindow),
                   buffers_[b].all());
    }
  }

 private:
  builder::Index index_of(Reference index) const {
    return index.number ? numbers_[index.which] : loops_[index.which];
  }
  builder::TileAccess tile(const Place& place, uint32_t rows = kRows,
                           uint32_t columns = kWindow) const {
    builder::TileAccess access = tiles_[place.which].at(0, rows, place.first, columns);
    for (const Move& move : place.moves) {
      access = access.advancing(move.step, index_of(move.index));
    }
    return access;
  }
  builder::BufferAccess block(const Place& place) const {
    builder::BufferAccess access =
        buffers_[place.which].block(uint64_t{place.first} * kRows, kRows, 0, kWindow);
    for (const Move& move : place.moves) {
      access = access.advancing(int64_t{move.step} * kRows * kWindow * 4, index_of(move.index));
    }
    return access;
  }
  // Some bits of the words of a window, in one of the tiles that are used in turn.
  const builder::Tile& bits(const Place& place, uint32_t mask) {
    const builder::Tile& to = scratch_[next_++ % kScratch];
    program_.tensor_scalar_bits(Engine::kDve, to.all(), tile(place), NEURON_ALU_AND, mask);
    return to;
  }
  builder::TileAccess factors(const Place& place, uint32_t dtype) {
    const builder::Tile& integers = bits(place, kFactors);
    const auto& tiles = dtype == NEURON_DTYPE_F32 ? factors_ : short_factors_;
    const builder::Tile& to = tiles[next_++ % kScratch];
    program_.tensor_copy(next_ % 3 == 0 ? Engine::kPool : Engine::kDve, to.all(), integers.all());
    return to.all();
  }
  builder::TileAccess word(const Place& place) const {
    return tiles_[place.which].at(0, 1, place.first, 1);
  }

  void list(const std::vector<Statement>& statements) {
    for (const Statement& s : statements) write(s);
  }

  void write(const Statement& s) {
    switch (s.kind) {
      case Kind::kFill:
        return program_.memset(s.engine, tile(s.to), s.value);
      case Kind::kCopy:
        if (s.engine == Engine::kActivation) {
          return program_.activate(tile(s.to), NEURON_ACT_COPY, tile(s.a));
        }
        return program_.tensor_copy(s.engine, tile(s.to), tile(s.a));
      case Kind::kXor:
        return program_.tensor_tensor(s.engine, tile(s.to), tile(s.a), NEURON_ALU_XOR, tile(s.b));
      case Kind::kLoad:
        return s.generated ? program_.dma_generate(tile(s.to), block(s.a))
                           : program_.dma(s.engine, tile(s.to), block(s.a));
      case Kind::kStore:
        return s.generated ? program_.dma_generate(block(s.to), tile(s.a))
                           : program_.dma(s.engine, block(s.to), tile(s.a));
      case Kind::kProduct:
        return program_.matmul(banks_[s.to.which].all(), factors(s.a, s.op), factors(s.b, s.op),
                               s.value != 0);
      case Kind::kEvict: {
        const builder::TileAccess to = tile(s.to, kWindow);
        return s.engine == Engine::kActivation
                   ? program_.activate(to, NEURON_ACT_COPY, banks_[s.a.which].all())
                   : program_.tensor_copy(s.engine, to, banks_[s.a.which].all());
      }
      case Kind::kReduce:
        return program_.tensor_reduce(tile(s.to, kRows, 1), static_cast<uint8_t>(s.op), tile(s.a));
      case Kind::kReduceRows:
        return program_.partition_reduce(tile(s.to, 1), NEURON_ALU_MAX, tile(s.a));
      case Kind::kGather:
        return program_.n_gather(tile(s.to), tiles_[s.a.which].all(), bits(s.b, kPlaces).all());
      case Kind::kFetch:
        return program_.dma_gather(tile(s.to), buffers_[s.a.which],
                                   bits(s.b, kFetched).column_range(0, 1));
      case Kind::kSet:
        return control_.set(numbers_[s.number], s.value);
      case Kind::kAlu: {
        const auto op = static_cast<uint8_t>(s.op);
        return s.with_number
                   ? control_.set(numbers_[s.number], index_of(s.left), op, index_of(s.right))
                   : control_.set(numbers_[s.number], index_of(s.left), op, s.value);
      }
      case Kind::kRead:
        return s.with_number ? control_.load(numbers_[s.number], table_.pattern(s.value, {1}, {1}))
                             : control_.load(numbers_[s.number], word(s.a));
      case Kind::kWrite:
        return control_.store(word(s.to), index_of(s.left));
      case Kind::kLoop:
      case Kind::kCount: {
        const auto body = [&](builder::Index round) {
          loops_[s.loop] = round;
          list(s.body);
        };
        return s.kind == Kind::kLoop ? control_.loop(s.value, body)
                                     : control_.loop(numbers_[s.number], body);
      }
      case Kind::kWhen:
        return control_.when(
            index_of(s.left), s.compare, s.value, [&] { list(s.body); },
            [&] { list(s.otherwise); });
      case Kind::kCall:
        return control_.call(functions_[s.value]);
      case Kind::kBarrier:
        return control_.barrier();
      case Kind::kOnce:
        return control_.once([&] { list(s.body); });
    }
  }

  static constexpr uint32_t kScratch = 5;

  const RandomProgram& random_;
  builder::Program& program_;
  std::array<builder::Tile, kScratch> scratch_, factors_, short_factors_;
  std::array<builder::Tile, kBanks> banks_;
  uint32_t next_ = 0;
  builder::ControlFlow control_;
  builder::Buffer table_;
  std::vector<builder::Tile> tiles_;
  std::vector<builder::Buffer> buffers_;
  std::vector<builder::Index> numbers_, loops_;
  std::vector<builder::Function> functions_;
};

}  // namespace

RandomProgram random_program(uint32_t seed, uint32_t operations, uint32_t functions) {
  return Maker(seed, operations, functions).make();
}

std::vector<Memory> interpret(const RandomProgram& program, uint32_t executions) {
  Interpreter interpreter(program);
  std::vector<Memory> all;
  while (all.size() < executions) all.push_back(interpreter.run());
  return all;
}

void write(const RandomProgram& random, builder::Program& program) {
  Writer(random, program).run();
}

}  // namespace neuron::property
