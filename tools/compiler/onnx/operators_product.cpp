// SPDX-License-Identifier: Apache-2.0
// Products of matrices.
#include <algorithm>
#include <map>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

void matmul(Call& c) { c.out(c.b.product(c.in(0), c.in(1))); }

// The matrix with its dimensions exchanged.
Value turned(Call& c, Value x) { return c.b.transpose(x, {1, 0}); }

void gemm(Call& c) {
  Value a = c.in(0), b = c.in(1);
  const Type type = c.b.type(a);
  const bool whole = !graph::is_real(type);
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  if (c.b.rank(a) != 2 || c.b.rank(b) != 2) {
    c.b.fail("it needs matrices, found {} and {}", graph::shape_text(c.b.shape(a)),
             graph::shape_text(c.b.shape(b)));
    return;
  }
  if (whole && (alpha != 1 || beta != 1)) {
    c.b.fail("factors {} and {} of whole numbers", alpha, beta);
    return;
  }
  const bool turns_a = c.integer("transA", 0) != 0;
  if (c.integer("transB", 0) != 0) b = turned(c, b);
  const auto as_batch = [&](Value x) {
    const Shape shape = c.b.shape(x);
    return c.b.reshape(x, {1, shape[0], shape[1]});
  };
  const Value right = as_batch(b);
  Value product = c.b.batched_product(as_batch(a), right, turns_a);
  if (!c.b.ok()) return;
  const Shape shape = c.b.shape(product);
  product = c.b.reshape(product, {shape[1], shape[2]});
  if (alpha != 1) product = c.b.map(Function::kMultiply, product, alpha);
  if (c.has(2)) {
    const Value offset = c.in(2);
    product = c.b.add(product, beta == 1 ? offset : c.b.map(Function::kMultiply, offset, beta));
  }
  c.out(product);
}

struct Equation {
  std::vector<std::string> terms;
  std::string result;
};

// Letters for the dimensions behind "..." are digits, counted from the last.
bool read_equation(Call& c, Equation& equation) {
  std::string text = c.text("equation", "");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  if (c.count() == 0) return false;
  std::string left = text.substr(0, arrow);
  int64_t widest = 0;
  for (size_t i = 0; i < c.count(); ++i) {
    const size_t comma = left.find(',');
    std::string term = left.substr(0, comma);
    if ((comma == std::string::npos) != (i + 1 == c.count())) return false;
    left = comma == std::string::npos ? "" : left.substr(comma + 1);
    if (const size_t dots = term.find("..."); dots != std::string::npos) {
      const int64_t hidden = c.b.rank(c.in(i)) - static_cast<int64_t>(term.size() - 3);
      if (hidden < 0 || hidden > 9) return false;
      widest = std::max(widest, hidden);
      std::string digits;
      for (int64_t d = hidden; d-- > 0;) digits += static_cast<char>('0' + d);
      term.replace(dots, 3, digits);
    }
    if (static_cast<int64_t>(term.size()) != c.b.rank(c.in(i))) return false;
    equation.terms.push_back(term);
  }
  std::string digits;
  for (int64_t d = widest; d-- > 0;) digits += static_cast<char>('0' + d);
  if (arrow != std::string::npos) {
    equation.result = text.substr(arrow + 2);
    if (const size_t dots = equation.result.find("..."); dots != std::string::npos) {
      equation.result.replace(dots, 3, digits);
    }
    return true;
  }
  std::map<char, int> uses;
  for (const std::string& term : equation.terms) {
    for (const char letter : term) ++uses[letter];
  }
  equation.result = digits;
  for (const auto& [letter, count] : uses) {
    if (count == 1 && (letter < '0' || letter > '9')) equation.result += letter;
  }
  return true;
}

// The operand with one dimension for each of `letters`, size 1 where it has none. A letter that it
// has twice selects its diagonal.
Value aligned(Call& c, Value x, std::string term, const std::string& letters) {
  for (size_t i = 0; i < term.size(); ++i) {
    const size_t again = term.find(term[i], i + 1);
    if (again == std::string::npos) continue;
    const Shape from = c.b.shape(x);
    const Shape steps = graph::strides_of(from);
    if (from[i] != from[again]) return c.b.fail("the letter {} has two sizes", term[i]);
    Shape to = from;
    to.erase(to.begin() + static_cast<ptrdiff_t>(again));
    const Shape to_steps = graph::strides_of(to);
    graph::Region region;
    for (size_t d = 0, old = 0; d < to.size(); ++d, ++old) {
      if (old == again) ++old;
      const int64_t step = steps[old] + (d == i ? steps[again] : 0);
      region.dimensions.push_back({to[d], to_steps[d], step});
    }
    x = c.b.regions({x}, to, {region});
    term.erase(again, 1);
    --i;
  }
  std::vector<int64_t> order;
  Shape shape;
  const Shape from = c.b.shape(x);
  for (const char letter : letters) {
    const size_t place = term.find(letter);
    shape.push_back(place == std::string::npos ? 1 : from[place]);
    if (place != std::string::npos) order.push_back(static_cast<int64_t>(place));
  }
  return c.b.reshape(c.b.transpose(x, order), shape);
}

void einsum(Call& c) {
  Equation equation;
  if (!read_equation(c, equation)) {
    c.b.fail("the equation \"{}\" does not fit its {} inputs",
             base::escaped(c.text("equation", "")), c.count());
    return;
  }
  // All letters: those of the result, then those that are summed.
  std::string letters = equation.result, summed;
  for (const std::string& term : equation.terms) {
    for (const char letter : term) {
      if (letters.find(letter) == std::string::npos && summed.find(letter) == std::string::npos) {
        summed += letter;
      }
    }
  }
  letters += summed;
  for (const char letter : equation.result) {
    const bool read = std::any_of(
        equation.terms.begin(), equation.terms.end(),
        [&](const std::string& term) { return term.find(letter) != std::string::npos; });
    // "..." may stand for no dimension at all.
    if (read) continue;
    c.b.fail("the letter \"{}\" of the result is in no term of \"{}\"",
             base::escaped(std::string(1, letter)), base::escaped(c.text("equation", "")));
    return;
  }
  const auto kept = static_cast<int64_t>(equation.result.size());
  Value value = aligned(c, c.in(0), equation.terms[0], letters);
  for (size_t i = 1; i < c.count(); ++i) {
    value = c.b.multiply(value, aligned(c, c.in(i), equation.terms[i], letters));
  }
  std::vector<int64_t> axes;
  for (int64_t i = kept; i < static_cast<int64_t>(letters.size()); ++i) axes.push_back(i);
  c.out(c.b.reduce(Function::kAdd, value, axes, false));
}

constexpr Operator kProductOperators[] = {{"Einsum", einsum}, {"Gemm", gemm}, {"MatMul", matmul}};

}  // namespace

std::span<const Operator> product_operators() { return kProductOperators; }

}  // namespace neuron::onnx
