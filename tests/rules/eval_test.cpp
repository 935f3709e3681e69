// The evaluators of prims against loops that index every element from the definition in ops.def, on random shapes (seeded, empty extents among
// them), and what they do at the edges of the dtypes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/evaluate.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class PrimsEval : public ::testing::Test {
 protected:
  std::mt19937 random{1234};
  int64_t below(int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint32_t>(limit)); }

  Shape shape(int rank, int64_t largest = 5) {
    Shape result;
    for (int i = 0; i < rank; ++i) result.push_back(below(12) == 0 ? 0 : 1 + below(largest));
    return result;
  }
  /// Small whole numbers: sums and products of them are exact in every dtype and order.
  Tensor whole(DType dtype, const Shape& dims, int64_t low = -4, int64_t high = 4) {
    Tensor result(dtype, dims);
    for (int64_t i = 0; i < result.count(); ++i) result.set_int64(i, low + below(high - low + 1));
    return result;
  }
};

std::vector<Tensor> run_all(Op op, const std::vector<Tensor>& operands, Attrs attrs = {}, bool f64 = false) {
  Graph graph;
  Builder builder(graph, graph.body, {});
  std::vector<Value*> values;
  for (const Tensor& operand : operands) values.push_back(graph.add_input("x", Type(operand.dtype(), operand.shape())));
  const Node* node = builder.emit_node(op, values, std::move(attrs));
  std::vector<Tensor> held;
  for (const Tensor& operand : operands) held.push_back(f64 && is_float(operand.dtype()) ? operand.cast_to(DType::f64) : operand);
  return evaluate_prim(*node, held, f64);
}

Tensor run(Op op, const std::vector<Tensor>& operands, Attrs attrs = {}, bool f64 = false) {
  return run_all(op, operands, std::move(attrs), f64)[0];
}

Tensor list(DType dtype, const std::vector<double>& values) {
  Tensor result(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) result.set_double(static_cast<int64_t>(i), values[i]);
  return result;
}

void expect_values(const Tensor& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.count(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    const double x = found.as_double(static_cast<int64_t>(i));
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(x)) << "at " << i << " is " << x;
    } else {
      EXPECT_EQ(x, expected[i]) << "at " << i;
    }
  }
}

/// Calls f(index) for every index of `dims`, last axis fastest.
void for_each_index(const Shape& dims, const std::function<void(const Shape&)>& f) {
  if (num_elements(dims) == 0) return;
  Shape index(dims.size(), 0);
  while (true) {
    f(index);
    size_t i = dims.size();
    while (i > 0 && ++index[i - 1] == dims[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

int64_t flat(const Shape& dims, const Shape& index) {
  int64_t result = 0;
  for (size_t i = 0; i < dims.size(); ++i) result = result * dims[i] + index[i];
  return result;
}

double at(const Tensor& x, const Shape& index) { return x.as_double(flat(x.shape(), index)); }

/// A tensor from its definition per index.
void expect_defined(const Tensor& found, const std::function<double(const Shape&)>& definition) {
  for_each_index(found.shape(),
                 [&](const Shape& index) { ASSERT_EQ(at(found, index), definition(index)) << to_string(std::span<const int64_t>(index)); });
}

TEST_F(PrimsEval, BinaryBroadcasts) {
  for (int round = 0; round < 60; ++round) {
    const Shape full = shape(static_cast<int>(below(4)) + 1);
    auto shrunk = [&] {
      Shape result(full.begin() + below(static_cast<int64_t>(full.size()) + 1), full.end());
      for (int64_t& extent : result) {
        if (below(3) == 0) extent = 1;
      }
      return result;
    };
    const DType dtype = std::vector{DType::f32, DType::i32, DType::u8, DType::f16, DType::f64}[static_cast<size_t>(below(5))];
    const Tensor a = whole(dtype, full, 0, 9), b = whole(dtype, shrunk(), 0, 9);
    const Tensor sum = run(Op::add_, {a, b});
    ASSERT_EQ(sum.shape(), full);
    expect_defined(sum, [&](const Shape& index) {
      Shape own(index.end() - static_cast<int64_t>(b.rank()), index.end());
      for (size_t i = 0; i < own.size(); ++i) own[i] = b.shape()[i] == 1 ? 0 : own[i];
      return at(a, index) + at(b, own);
    });
  }
}

TEST_F(PrimsEval, IntegersWrapAndDivideByZeroToZero) {
  expect_values(run(Op::add_, {list(DType::u8, {250, 1}), list(DType::u8, {10, 1})}), {4, 2});
  expect_values(run(Op::mul_, {list(DType::i8, {100, -128}), list(DType::i8, {2, -1})}), {-56, -128});
  expect_values(run(Op::neg_, {list(DType::i8, {-128, 3})}), {-128, -3});
  expect_values(run(Op::div_, {list(DType::i32, {7, -7, 7, 0, -2147483648.0}), list(DType::i32, {2, 2, 0, 0, -1})}),
                {3, -3, 0, 0, -2147483648.0});
  expect_values(run(Op::rem_, {list(DType::i32, {7, -7, 7, 5}), list(DType::i32, {3, 3, -3, 0})}), {1, -1, 1, 0});
  expect_values(run(Op::mod_, {list(DType::i32, {7, -7, 7, 5}), list(DType::i32, {3, 3, -3, 0})}), {1, 2, -2, 0});
  expect_values(run(Op::pow_, {list(DType::i32, {-3, 2, 2, 1, -1, 0}), list(DType::i32, {3, 5, -1, -5, -3, 0})}), {-27, 32, 0, 1, -1, 1});
  expect_values(run(Op::shl_, {list(DType::u8, {3, 1, 1}), list(DType::u8, {2, 7, 8})}), {12, 128, 0});
  expect_values(run(Op::shr_, {list(DType::i8, {-128, -128, 64}), list(DType::i8, {1, 100, 3})}), {-64, -1, 8});
  expect_values(run(Op::shr_, {list(DType::u8, {255, 255}), list(DType::u8, {4, 9})}), {15, 0});
  expect_values(run(Op::not_, {list(DType::u8, {0, 255, 5})}), {255, 0, 250});
  expect_values(run(Op::not_, {list(DType::boolean, {0, 1})}), {1, 0});
}

TEST_F(PrimsEval, FloatsFollowIeee) {
  const Tensor a = list(DType::f32, {kNan, 1, -0.0, kInf}), b = list(DType::f32, {1, kNan, 2, -kInf});
  expect_values(run(Op::max_, {a, b}), {kNan, kNan, 2, kInf});
  expect_values(run(Op::min_, {a, b}), {kNan, kNan, -0.0, -kInf});
  expect_values(run(Op::mod_, {list(DType::f32, {5.5, -5.5, 5.5}), list(DType::f32, {3, 3, -3})}), {2.5, 0.5, -0.5});
  expect_values(run(Op::rem_, {list(DType::f32, {5.5, -5.5, 5.5}), list(DType::f32, {3, 3, -3})}), {2.5, -2.5, 2.5});
  expect_values(run(Op::round_even_, {list(DType::f32, {0.5, 1.5, -2.5, 2.25})}), {0, 2, -2, 2});
  expect_values(run(Op::sign_, {list(DType::f32, {-3, 0, 2, kNan})}), {-1, 0, 1, kNan});
  const Tensor clamped =
      run(Op::clamp_, {list(DType::f32, {kNan, -5, 0.5, kInf}), list(DType::f32, {-1, -1, -1, -1}), list(DType::f32, {1, 1, 1, 1})});
  expect_values(clamped, {kNan, -1, 0.5, 1});
  EXPECT_NEAR(run(Op::sinh_, {list(DType::f32, {89})}).as_double(0), 2.2448e38, 1e34);  // exp(89) overflows, sinh(89) does not
  const Tensor base = list(DType::f32, {-30, -27, -28.5}), cubes = run(Op::pow_, {base, list(DType::f32, {3, 3, 3})});
  const Tensor inverse = run(Op::pow_, {base, list(DType::f32, {-2, -2, -2})});
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::isfinite(cubes.as_double(i)) && cubes.as_double(i) < 0);
    EXPECT_GT(inverse.as_double(i), 0);
  }
  expect_values(run(Op::pow_, {base, list(DType::f32, {0.2, 0.2, 0.2})}), {kNan, kNan, kNan});
}

TEST_F(PrimsEval, CastFollowsOneRule) {
  expect_values(run(Op::cast_, {list(DType::f32, {-3.7, 5e9, 3.9, kNan})}, {{"dtype", DType::u32}}), {0, 4294967295.0, 3, 0});
  expect_values(run(Op::cast_, {list(DType::f32, {-3.7, 300, -kInf})}, {{"dtype", DType::i8}}), {-3, 127, -128});
  expect_values(run(Op::cast_, {list(DType::i32, {300, -1})}, {{"dtype", DType::u8}}), {44, 255});
  expect_values(run(Op::cast_, {list(DType::f32, {0, 0.5, kNan})}, {{"dtype", DType::boolean}}), {0, 1, 1});
  const Tensor wide = run(Op::cast_, {list(DType::f32, {0.1})}, {{"dtype", DType::f16}}, true);
  EXPECT_EQ(wide.dtype(), DType::f64);  // f64 mode rounds nothing
  const Tensor bits = run(Op::bitcast_, {list(DType::f32, {1, -2})}, {{"dtype", DType::u32}}, true);
  expect_values(bits, {0x3f800000, 0xc0000000});
}

TEST_F(PrimsEval, SixteenBitFloatsRoundOnce) {
  // 2048 + 1 is not an f16; a sum of many ones is exact when it accumulates in f32.
  expect_values(run(Op::add_, {list(DType::f16, {2048}), list(DType::f16, {1})}), {2048});
  Tensor ones(DType::f16, {4096});
  for (int64_t i = 0; i < 4096; ++i) ones.set_double(i, 1);
  expect_values(run(Op::reduce_sum_, {ones}, {{"axes", std::vector<int64_t>{0}}}), {4096});
  expect_values(run(Op::dot_general_, {ones, ones},
                    {{"lhs_batch", std::vector<int64_t>{}},
                     {"rhs_batch", std::vector<int64_t>{}},
                     {"lhs_contract", std::vector<int64_t>{0}},
                     {"rhs_contract", std::vector<int64_t>{0}},
                     {"dtype", DType::f16}}),
                {4096});
}

TEST_F(PrimsEval, ViewsMoveElements) {
  for (int round = 0; round < 60; ++round) {
    const int rank = static_cast<int>(below(4)) + 1;
    const DType dtype = std::vector{DType::f32, DType::u8, DType::i4, DType::f16, DType::i64}[static_cast<size_t>(below(5))];
    const Tensor x = whole(dtype, shape(rank, round % 10 == 0 ? 70 : 6));
    std::vector<int64_t> permutation(static_cast<size_t>(rank));
    for (int i = 0; i < rank; ++i) permutation[static_cast<size_t>(i)] = i;
    std::shuffle(permutation.begin(), permutation.end(), random);
    expect_defined(run(Op::transpose_, {x}, {{"permutation", permutation}}), [&](const Shape& index) {
      Shape source(index.size());
      for (size_t i = 0; i < index.size(); ++i) source[static_cast<size_t>(permutation[i])] = index[i];
      return at(x, source);
    });
    expect_defined(run(Op::reverse_, {x}, {{"axes", std::vector<int64_t>{rank - 1}}}), [&](const Shape& index) {
      Shape source = index;
      source.back() = x.shape().back() - 1 - source.back();
      return at(x, source);
    });
    std::vector<int64_t> starts, limits, steps, low, high, interior;
    for (int64_t extent : x.shape()) {
      starts.push_back(below(extent + 1));
      limits.push_back(starts.back() + below(extent - starts.back() + 1));
      steps.push_back(1 + below(3));
      interior.push_back(below(3));
      low.push_back(below(4));
      high.push_back(below(4));
    }
    expect_defined(run(Op::slice_, {x}, {{"starts", starts}, {"limits", limits}, {"steps", steps}}), [&](const Shape& index) {
      Shape source = index;
      for (size_t i = 0; i < source.size(); ++i) source[i] = starts[i] + source[i] * steps[i];
      return at(x, source);
    });
    Tensor seven(dtype, {});
    seven.set_int64(0, 7);
    expect_defined(run(Op::pad_, {x, seven}, {{"low", low}, {"high", high}, {"interior", interior}}), [&](const Shape& index) {
      Shape source = index;
      for (size_t i = 0; i < source.size(); ++i) {
        const int64_t position = source[i] - low[i];
        if (position < 0 || position % (interior[i] + 1) != 0 || position / (interior[i] + 1) >= x.shape()[i]) return 7.0;
        source[i] = position / (interior[i] + 1);
      }
      return at(x, source);
    });
    const int64_t first = x.shape()[0];
    expect_defined(run(Op::concat_, {x, x}, {{"axis", int64_t{0}}}), [&](const Shape& index) {
      Shape source = index;
      source[0] %= first;
      return at(x, source);
    });
  }
}

TEST_F(PrimsEval, Reductions) {
  for (int round = 0; round < 80; ++round) {
    const int rank = static_cast<int>(below(5)) + 1;
    const DType dtype = std::vector{DType::f32, DType::i32, DType::u8, DType::bf16}[static_cast<size_t>(below(4))];
    const Tensor x = whole(dtype, shape(rank, 3), 0, 1);  // few enough for bf16
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < rank; ++i) {
      if (below(2) == 0) axes.push_back(i);
    }
    for (Op op : {Op::reduce_sum_, Op::reduce_max_, Op::reduce_min_}) {
      const Tensor found = run(op, {x}, {{"axes", axes}});
      double identity = 0;
      if (op != Op::reduce_sum_) {
        identity = is_float(dtype) ? kInf : dtype == DType::i32 ? 2147483647.0 : 255;
        if (op == Op::reduce_max_) identity = is_float(dtype) ? -kInf : dtype == DType::i32 ? -2147483648.0 : 0;
      }
      std::vector<double> expected(static_cast<size_t>(found.count()), identity);
      for_each_index(x.shape(), [&](const Shape& index) {
        Shape kept;
        for (int64_t i = 0; i < rank; ++i) {
          if (std::find(axes.begin(), axes.end(), i) == axes.end()) kept.push_back(index[static_cast<size_t>(i)]);
        }
        double& value = expected[static_cast<size_t>(flat(found.shape(), kept))];
        const double element = at(x, index);
        value = op == Op::reduce_sum_ ? value + element : op == Op::reduce_max_ ? std::max(value, element) : std::min(value, element);
      });
      if (dtype == DType::u8) {
        for (double& value : expected) value = std::fmod(value, 256);
      }
      expect_values(found, expected);
    }
  }
  const std::vector<int64_t> zero{0};
  expect_values(run(Op::reduce_max_, {list(DType::f32, {1, kNan, 3, kInf})}, {{"axes", zero}}), {kNan});
  expect_values(run(Op::reduce_min_, {list(DType::f32, {1, 2, 3, -kInf, kNan, 0})}, {{"axes", zero}}), {kNan});
  expect_values(run(Op::reduce_prod_, {Tensor(DType::f32, {0})}, {{"axes", zero}}), {1});
  expect_values(run(Op::reduce_and_, {list(DType::boolean, {1, 0, 1})}, {{"axes", zero}}), {0});
  expect_values(run(Op::reduce_and_, {Tensor(DType::boolean, {0})}, {{"axes", zero}}), {1});
  expect_values(run(Op::reduce_or_, {list(DType::boolean, {0, 0, 1})}, {{"axes", zero}}), {1});
  const Tensor ties = list(DType::f32, {1, 3, 3, 2});
  expect_values(run(Op::argmax_, {ties}, {{"axis", int64_t{0}}, {"last", false}}), {1});
  expect_values(run(Op::argmax_, {ties}, {{"axis", int64_t{0}}, {"last", true}}), {2});
  expect_values(run(Op::argmin_, {list(DType::f32, {1, kNan, 0, kNan})}, {{"axis", int64_t{0}}, {"last", false}}), {1});
}

TEST_F(PrimsEval, Cumulative) {
  const Tensor x = list(DType::f32, {1, 2, 3, 4});
  auto cumulative = [&](const char* op, bool reverse, bool exclusive) {
    return run(Op::cumulative_, {x}, {{"op", std::string(op)}, {"axis", int64_t{0}}, {"reverse", reverse}, {"exclusive", exclusive}});
  };
  expect_values(cumulative("sum", false, false), {1, 3, 6, 10});
  expect_values(cumulative("sum", true, false), {10, 9, 7, 4});
  expect_values(cumulative("sum", false, true), {0, 1, 3, 6});
  expect_values(cumulative("prod", true, true), {24, 12, 4, 1});
  expect_values(cumulative("max", false, true), {-kInf, 1, 2, 3});
}

TEST_F(PrimsEval, Windows) {
  for (int round = 0; round < 40; ++round) {
    const int rank = static_cast<int>(below(3)) + 1;
    const Tensor x = whole(round % 2 == 0 ? DType::f32 : DType::i32, shape(rank, 8), 1, 5);
    std::vector<int64_t> window, strides, low, high, dilations;
    for (int64_t extent : x.shape()) {
      window.push_back(1 + below(3));
      strides.push_back(1 + below(2));
      dilations.push_back(1 + below(2));
      low.push_back(below(3));
      high.push_back(below(3) + std::max<int64_t>(0, (window.back() - 1) * dilations.back() + 1 - extent - low.back()));
    }
    for (const char* op : {"sum", "max"}) {
      const Tensor found =
          run(Op::reduce_window_, {x},
              {{"op", std::string(op)}, {"window", window}, {"strides", strides}, {"low", low}, {"high", high}, {"dilations", dilations}});
      const bool sum = std::string(op) == "sum";
      expect_defined(found, [&](const Shape& index) {
        double value = sum ? 0 : is_float(x.dtype()) ? -kInf : -2147483648.0;
        for_each_index(window, [&](const Shape& k) {
          Shape source = index;
          for (size_t i = 0; i < source.size(); ++i) {
            source[i] = source[i] * strides[i] - low[i] + k[i] * dilations[i];
            if (source[i] < 0 || source[i] >= x.shape()[i]) return;
          }
          value = sum ? value + at(x, source) : std::max(value, at(x, source));
        });
        return value;
      });
    }
  }
}

TEST_F(PrimsEval, DotGeneral) {
  for (int round = 0; round < 60; ++round) {
    // Operand axes are any permutation of batch, free and contracted axes.
    const Shape batch = shape(static_cast<int>(below(2)), 3), contract = shape(static_cast<int>(below(3)), round % 5 == 0 ? 40 : 6);
    const Shape lhs_free = shape(static_cast<int>(below(3)), 9), rhs_free = shape(static_cast<int>(below(3)), 20);
    auto operand = [&](const Shape& free, std::vector<int64_t>& batch_axes, std::vector<int64_t>& contract_axes,
                       std::vector<int64_t>& free_axes) {
      Shape extents = batch;
      extents.insert(extents.end(), contract.begin(), contract.end());
      extents.insert(extents.end(), free.begin(), free.end());
      std::vector<size_t> order(extents.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end() - static_cast<int64_t>(free.size()), random);
      std::rotate(order.begin(), order.begin() + below(static_cast<int64_t>(order.size()) + 1), order.end());
      Shape dims;
      std::vector<int64_t> position(extents.size());
      for (size_t i = 0; i < order.size(); ++i) {
        dims.push_back(extents[order[i]]);
        position[order[i]] = static_cast<int64_t>(i);
      }
      batch_axes.assign(position.begin(), position.begin() + static_cast<int64_t>(batch.size()));
      contract_axes.assign(position.begin() + static_cast<int64_t>(batch.size()), position.end() - static_cast<int64_t>(free.size()));
      free_axes.assign(position.end() - static_cast<int64_t>(free.size()), position.end());
      std::sort(free_axes.begin(), free_axes.end());
      return dims;
    };
    std::vector<int64_t> lb, lc, lf, rb, rc, rf;
    const DType dtype = std::vector{DType::f32, DType::f64, DType::i32, DType::u8}[static_cast<size_t>(below(4))];
    const Tensor a = whole(dtype, operand(lhs_free, lb, lc, lf), 0, 3), b = whole(dtype, operand(rhs_free, rb, rc, rf), 0, 3);
    const DType result = dtype == DType::u8 ? DType::i32 : dtype;
    const Tensor found = run(Op::dot_general_, {a, b},
                             {{"lhs_batch", lb}, {"rhs_batch", rb}, {"lhs_contract", lc}, {"rhs_contract", rc}, {"dtype", result}});
    expect_defined(found, [&](const Shape& index) {
      Shape i(a.shape().size()), j(b.shape().size());
      size_t next = 0;
      for (size_t n = 0; n < lb.size(); ++n, ++next) i[static_cast<size_t>(lb[n])] = j[static_cast<size_t>(rb[n])] = index[next];
      for (int64_t axis : lf) i[static_cast<size_t>(axis)] = index[next++];
      for (int64_t axis : rf) j[static_cast<size_t>(axis)] = index[next++];
      double sum = 0;
      for_each_index(contract, [&](const Shape& k) {
        for (size_t n = 0; n < lc.size(); ++n) i[static_cast<size_t>(lc[n])] = j[static_cast<size_t>(rc[n])] = k[n];
        sum += at(a, i) * at(b, j);
      });
      return sum;
    });
  }
}

TEST_F(PrimsEval, LargeProductsCrossEveryBlock) {
  const int64_t m = 203, k = 517, n = 1031;
  const Tensor a = whole(DType::f32, {m, k}), b = whole(DType::f32, {k, n});
  for (bool f64 : {false, true}) {
    const Tensor found = run(Op::dot_general_, {a, b},
                             {{"lhs_batch", std::vector<int64_t>{}},
                              {"rhs_batch", std::vector<int64_t>{}},
                              {"lhs_contract", std::vector<int64_t>{1}},
                              {"rhs_contract", std::vector<int64_t>{0}},
                              {"dtype", DType::f32}},
                             f64);
    for (int64_t i = 0; i < m; i += 7) {
      for (int64_t j = 0; j < n; j += 11) {
        double sum = 0;
        for (int64_t t = 0; t < k; ++t) sum += static_cast<double>(a.data<float>()[i * k + t]) * b.data<float>()[t * n + j];
        ASSERT_EQ(found.as_double(i * n + j), sum);
      }
    }
  }
}

TEST_F(PrimsEval, ConvGeneral) {
  for (int round = 0; round < 60; ++round) {
    const int rank = static_cast<int>(below(3)) + 1;
    const int64_t groups = 1 + below(3), channels = 1 + below(3), outputs = 1 + below(3);
    Shape x_shape{1 + below(2), groups * channels}, w_shape{groups * outputs, channels};
    std::vector<int64_t> strides, low, high, lhs_dilation, rhs_dilation;
    for (int i = 0; i < rank; ++i) {
      x_shape.push_back(1 + below(rank == 1 ? 90 : 7));
      w_shape.push_back(1 + below(3));
      strides.push_back(1 + below(3));
      lhs_dilation.push_back(1 + below(3));
      rhs_dilation.push_back(1 + below(2));
      const int64_t spread = (x_shape.back() - 1) * lhs_dilation.back() + 1, extent = (w_shape.back() - 1) * rhs_dilation.back() + 1;
      low.push_back(below(4) - 1);
      high.push_back(below(4) - 1 + std::max<int64_t>(0, extent - spread - low.back() + 1));
    }
    const Tensor x = whole(DType::f32, x_shape), w = whole(DType::f32, w_shape);
    const Tensor found = run(Op::conv_general_, {x, w},
                             {{"strides", strides},
                              {"low", low},
                              {"high", high},
                              {"lhs_dilation", lhs_dilation},
                              {"rhs_dilation", rhs_dilation},
                              {"groups", groups}});
    expect_defined(found, [&](const Shape& index) {
      const int64_t group = index[1] / outputs;
      double sum = 0;
      for_each_index(Shape(w_shape.begin() + 1, w_shape.end()), [&](const Shape& k) {
        Shape source{index[0], group * channels + k[0]}, weight{index[1], k[0]};
        for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
          const int64_t position = index[i + 2] * strides[i] - low[i] + k[i + 1] * rhs_dilation[i];
          if (position < 0 || position % lhs_dilation[i] != 0 || position / lhs_dilation[i] >= x_shape[i + 2]) return;
          source.push_back(position / lhs_dilation[i]);
          weight.push_back(k[i + 1]);
        }
        sum += at(x, source) * at(w, weight);
      });
      return sum;
    });
  }
}

TEST_F(PrimsEval, GathersWrapOnceAndReadZeroOutside) {
  Tensor rows(DType::f32, {3, 4});
  for (int64_t i = 0; i < 12; ++i) rows.set_int64(i, i);
  Tensor all_last(DType::i64, {3, 4});
  for (int64_t i = 0; i < 12; ++i) all_last.set_int64(i, -1);
  expect_values(run(Op::gather_elements_, {rows, all_last}, {{"axis", int64_t{1}}}), {3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11});
  expect_values(run(Op::gather_, {rows, list(DType::i32, {-1, 0, 4, -5})}, {{"axis", int64_t{1}}}), {3, 0, 0, 0, 7, 4, 0, 0, 11, 8, 0, 0});
  const Tensor dropped = run(Op::gather_, {rows, Tensor::scalar(DType::i64, 2)}, {{"axis", int64_t{0}}});
  EXPECT_EQ(dropped.shape(), Shape({4}));
  expect_values(dropped, {8, 9, 10, 11});
  const Tensor pairs = list(DType::i64, {0, 1, 2, -1, 3, 0}).reshaped({3, 2});
  expect_values(run(Op::gather_nd_, {rows, pairs}, {{"batch_dims", int64_t{0}}}), {1, 11, 0});
  expect_values(run(Op::gather_nd_, {rows, list(DType::i64, {1, 0, -1}).reshaped({3, 1})}, {{"batch_dims", int64_t{1}}}), {1, 4, 11});
}

TEST_F(PrimsEval, ScattersCombineInOrder) {
  Tensor zeros(DType::f32, {3, 4});
  const Tensor two = list(DType::i64, {0, 1, 2, 3}).reshaped({2, 2});
  expect_values(run(Op::scatter_nd_, {zeros, two, list(DType::f32, {5, 6})}, {{"combiner", std::string("assign")}}),
                {0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6});
  const Tensor same = list(DType::i64, {1, 1, -2, 9}).reshaped({4, 1}), line = list(DType::f32, {1, 2, 3});
  const Tensor updates = list(DType::f32, {10, 20, 30, 40});
  expect_values(run(Op::scatter_nd_, {line, same, updates}, {{"combiner", std::string("add")}}), {1, 62, 3});
  expect_values(run(Op::scatter_nd_, {line, same, updates}, {{"combiner", std::string("assign")}}), {1, 30, 3});
  const Tensor indices = list(DType::i64, {0, -1, 0, 5});
  expect_values(run(Op::scatter_elements_, {line, indices, updates}, {{"axis", int64_t{0}}, {"combiner", std::string("max")}}),
                {30, 2, 20});
  expect_values(run(Op::scatter_elements_, {line, indices, updates}, {{"axis", int64_t{0}}, {"combiner", std::string("mul")}}),
                {300, 2, 60});
}

TEST_F(PrimsEval, TopkIsSortedAndStable) {
  const Tensor x = list(DType::f32, {3, 1, 3, 2, kNan});
  const std::vector<Tensor> top = run_all(Op::topk_, {x}, {{"k", int64_t{4}}, {"axis", int64_t{0}}, {"largest", true}});
  expect_values(top[0], {kNan, 3, 3, 2});
  expect_values(top[1], {4, 0, 2, 3});
  const std::vector<Tensor> low = run_all(Op::topk_, {x}, {{"k", int64_t{2}}, {"axis", int64_t{0}}, {"largest", false}});
  expect_values(low[1], {1, 3});
}

TEST_F(PrimsEval, Creation) {
  expect_values(run(Op::iota_, {}, {{"shape", std::vector<int64_t>{2, 3}}, {"axis", int64_t{1}}, {"dtype", DType::i32}}),
                {0, 1, 2, 0, 1, 2});
  expect_values(run(Op::full_, {}, {{"shape", std::vector<int64_t>{2}}, {"value", int64_t{-1}}, {"dtype", DType::u8}}), {255, 255});
  EXPECT_EQ(run(Op::full_, {}, {{"shape", std::vector<int64_t>{0, 3}}, {"value", 0.5}, {"dtype", DType::f32}}).count(), 0);
}

/// NaN wins and -0 is less than +0, whichever op takes the extreme: of two, of three, of a line, of what is there and an update.
TEST_F(PrimsEval, ExtremesOfEveryPair) {
  const std::vector<double> values{kNan, 0.0, -0.0, kInf, -kInf, 1.5, -3.0};
  auto expected = [](bool largest, double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return kNan;
    if (a == b) return std::signbit(a) == largest ? b : a;
    return (a > b) == largest ? a : b;
  };
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const bool largest : {true, false}) {
      for (double a : values) {
        for (double b : values) {
          const double want = expected(largest, a, b);
          auto check = [&](const Tensor& got, const char* what) {
            ASSERT_TRUE(std::isnan(want) ? std::isnan(got.as_double(0))
                                         : got.as_double(0) == want && std::signbit(got.as_double(0)) == std::signbit(want))
                << what << (largest ? " max of " : " min of ") << a << " and " << b << " is " << got.as_double(0);
          };
          const Tensor x = list(dtype, {a}), y = list(dtype, {b}), both = list(dtype, {a, b}), open = list(dtype, {largest ? kInf : -kInf});
          const std::string name = largest ? "max" : "min";
          check(run(largest ? Op::max_ : Op::min_, {x, y}), "pair");
          check(run(Op::clamp_, {x, largest ? y : open, largest ? open : y}), "clamp");
          check(run(largest ? Op::reduce_max_ : Op::reduce_min_, {both}, {{"axes", std::vector<int64_t>{0}}}), "reduce");
          check(run(Op::scatter_elements_, {x, list(DType::i64, {0}), y}, {{"axis", int64_t{0}}, {"combiner", name}}), "scatter");
          check(run(Op::reduce_window_, {both},
                    {{"op", name},
                     {"window", std::vector<int64_t>{2}},
                     {"strides", std::vector<int64_t>{1}},
                     {"low", std::vector<int64_t>{0}},
                     {"high", std::vector<int64_t>{0}},
                     {"dilations", std::vector<int64_t>{1}}}),
                "window");
        }
      }
    }
  }
}

}  // namespace
}  // namespace tcc
