// The canonical sums: the simplifications that free views live on, each as a claim, and a fuzz of everything against plain evaluation.
#include "tcc/loop/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

namespace tcc::loop {
namespace {

int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

int64_t evaluate(const Index& index, const std::map<const Var*, int64_t>& values) {
  int64_t result = index.constant();
  for (const Term& term : index.terms()) {
    int64_t value = 0;
    if (term.atom.var) value = values.at(term.atom.var.get());
    if (term.atom.operand) {
      const int64_t operand = evaluate(*term.atom.operand, values), quotient = floor_of(operand, term.atom.divisor);
      value = term.atom.kind == Atom::Kind::floor_div ? quotient : operand - quotient * term.atom.divisor;
    }
    result += term.coefficient * value;
  }
  return result;
}

/// Calls f with every assignment of the variables.
template <class F> void for_all(const std::vector<VarRef>& vars, F f) {
  std::map<const Var*, int64_t> values;
  for (const VarRef& var : vars) values[var.get()] = 0;
  while (true) {
    f(values);
    size_t i = 0;
    for (; i < vars.size(); ++i) {
      if (++values[vars[i].get()] < vars[i]->extent) break;
      values[vars[i].get()] = 0;
    }
    if (i == vars.size()) return;
  }
}

TEST(Index, DividesByRanges) {
  const VarRef i = make_var("i", 100), j = make_var("j", 32), r = make_var("r", 4), x = make_var("x", 1000);
  EXPECT_EQ(floor_div(Index(i) * 32 + j, 32), Index(i));
  EXPECT_EQ(mod(Index(i) * 32 + j, 32), Index(j));
  EXPECT_EQ(to_string(floor_div(Index(i) * 4 + Index(j) * 4 + r, 8)), "(%i + %j) / 2");
  EXPECT_EQ(to_string(mod(Index(i) * 4 + r, 8)), "%r + %i mod 2 * 4");
  EXPECT_EQ(mod(mod(x, 12), 4), mod(x, 4));
  EXPECT_EQ(floor_div(floor_div(x, 3), 5), floor_div(x, 15));
  EXPECT_EQ(floor_div(mod(x, 12), 4), mod(floor_div(x, 4), 3));
  EXPECT_EQ(mod(Index(x) * 12, 4), Index(0));
  EXPECT_EQ(floor_div(x, 7) * 7 + mod(x, 7), Index(x));
  EXPECT_EQ(mod(x, 7) + floor_div(x, 7) * 7, Index(x));
  EXPECT_EQ(floor_div(x, 12) * 12 + mod(floor_div(x, 4), 3) * 4 + mod(x, 4), Index(x));
  EXPECT_EQ(mod(floor_div(x, 4), 3) * 4 + mod(x, 4), mod(x, 12));
  EXPECT_EQ(floor_div(Index(i) * 12 + j, 24), floor_div(floor_div(Index(i) * 12 + j, 4), 6));
  EXPECT_EQ(Index(make_var("one", 1)), Index(0));
  EXPECT_EQ(Index(i) - i, Index(0));
  EXPECT_EQ(*(Index(99) - i).min(), 0);
}

TEST(Index, ScalarsTakePart) {
  const ScalarRef s = make_scalar("s", DType::i64);
  const VarRef i = make_var("i", 8);
  const Index index = Index::of_scalar(s) * 8 + i;
  EXPECT_EQ(floor_div(index, 8), Index::of_scalar(s));
  EXPECT_EQ(mod(index, 8), Index(i));
  EXPECT_FALSE(index.min().has_value());
  EXPECT_TRUE(index.uses_scalars());
}

TEST(Index, UnflattenUndoesFlatten) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const int rank = 1 + static_cast<int>(random() % 5);
    std::vector<int64_t> extents;
    std::vector<Index> indices;
    for (int a = 0; a < rank; ++a) {
      extents.push_back(1 + static_cast<int64_t>(random() % 9));
      indices.push_back(Index(make_var("v" + std::to_string(a), extents.back())));
    }
    EXPECT_EQ(unflatten(flatten(indices, extents), extents), indices);
  }
}

// A flat variable is seen through one shape after the other, each made of the prime factors of the last in the same order, and must come back whole.
TEST(Index, ReshapeChainsReturn) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> factors;
    int64_t total = 1;
    for (int f = 0; f < 5; ++f) {
      factors.push_back(1 + static_cast<int64_t>(random() % 5));
      total *= factors.back();
    }
    auto shape = [&] {  // neighbouring factors merged at random
      std::vector<int64_t> extents{1};
      for (int64_t f : factors) {
        if (random() % 2) extents.push_back(1);
        extents.back() *= f;
      }
      return extents;
    };
    const VarRef x = make_var("x", total);
    Index flat(x);
    for (int step = 0; step < 4; ++step) {
      const std::vector<int64_t> extents = shape();
      const std::vector<Index> indices = unflatten(flat, extents);
      flat = flatten(indices, extents);
      ASSERT_EQ(flat, Index(x)) << to_string(flat) << " extent " << total;
    }
    // The same from loops over one shape into another and back.
    const std::vector<int64_t> loops = shape(), other = shape();
    std::vector<Index> vars;
    for (int64_t e : loops) vars.push_back(Index(make_var("l", e)));
    EXPECT_EQ(unflatten(flatten(unflatten(flatten(vars, loops), other), other), loops), vars);
  }
}

TEST(Index, FuzzAgainstEvaluation) {
  std::mt19937 random(3);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  int kept = 0, tried = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<VarRef> vars;
    for (int v = 0; v < 3; ++v) vars.push_back(make_var(std::string(1, static_cast<char>('i' + v)), 1 + below(7)));
    struct Sample {
      Index index;
      std::function<int64_t(const std::map<const Var*, int64_t>&)> value;
    };
    std::vector<Sample> pool;
    for (const VarRef& var : vars) pool.push_back({Index(var), [p = var.get()](const auto& values) { return values.at(p); }});
    for (int step = 0; step < 7; ++step) {
      const Sample a = pool[static_cast<size_t>(below(static_cast<int64_t>(pool.size())))];
      const Sample b = pool[static_cast<size_t>(below(static_cast<int64_t>(pool.size())))];
      const int64_t k = 1 + below(12), shift = below(9) - 4;
      switch (below(5)) {
        case 0: pool.push_back({a.index * k + b.index, [=](const auto& v) { return a.value(v) * k + b.value(v); }}); break;
        case 1: pool.push_back({a.index - b.index + shift, [=](const auto& v) { return a.value(v) - b.value(v) + shift; }}); break;
        case 2: pool.push_back({floor_div(a.index, k), [=](const auto& v) { return floor_of(a.value(v), k); }}); break;
        case 3: pool.push_back({mod(a.index, k), [=](const auto& v) { return a.value(v) - floor_of(a.value(v), k) * k; }}); break;
        case 4: pool.push_back({a.index * shift + b.index * k, [=](const auto& v) { return a.value(v) * shift + b.value(v) * k; }}); break;
      }
      const Sample& last = pool.back();
      const bool plain =
          std::none_of(last.index.terms().begin(), last.index.terms().end(), [](const Term& t) { return t.atom.operand != nullptr; });
      const bool back = floor_div(last.index, k) * k + mod(last.index, k) == last.index;
      ASSERT_TRUE(back || !plain) << to_string(last.index) << " by "
                                  << k;  // sums of divisions may meet others of their kind and stay apart
      kept += back;
      ++tried;
      // Rebuilding a canonical sum changes nothing: what is printed reads back as the same.
      ASSERT_EQ(substitute(last.index, [](const VarRef& var) { return std::optional<Index>(Index(var)); }), last.index)
          << to_string(last.index);
    }
    const auto check = [&](const Sample& sample) {
      for_all(vars, [&](const auto& values) {
        const int64_t expected = sample.value(values);
        ASSERT_EQ(evaluate(sample.index, values), expected) << to_string(sample.index);
        ASSERT_LE(*sample.index.min(), expected);
        ASSERT_GE(*sample.index.max(), expected);
      });
    };
    for (const Sample& sample : pool) check(sample);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(kept, tried * 99 / 100);
}

}  // namespace
}  // namespace tcc::loop
