// What holds for passes beyond single cases: the interpreter's result stays, and the time grows linearly.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>

#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

std::string faults(const Graph& graph, GraphStage stage) {
  std::string text;
  for (const std::string& fault : verify(graph, stage)) text += fault + "\n";
  return text;
}

// x - (x + 1) with a rank-0 constant is -1, before and after every pass.
TEST(Passes, SubtractionOfASum) {
  const auto graph = parse_graph(R"(graph @g(%x: f32[1]) -> (%y: f32[1]) {
    weight @one: f32[] = [1]
    %s: f32[1] = add(%x, @one)
    %y: f32[1] = sub(%x, %s)
  })",
                                 "", {});
  Tensor x(DType::f32, {1});
  x.set_double(0, 2);
  const auto result = [&](bool f64) { return interpret(*graph, {{x}}, f64)[0].as_double(0); };
  EXPECT_EQ(result(false), -1);
  EXPECT_EQ(result(true), -1);
  canonicalize(*graph);
  fold_constants(*graph);
  eliminate_common_subexpressions(*graph);
  EXPECT_EQ(result(false), -1);
  Diagnostics diagnostics;
  decompose(*graph, diagnostics);
  EXPECT_EQ(faults(*graph, GraphStage::prims), "");
  EXPECT_EQ(result(false), -1);
}

/// Random graphs over small tensors: arithmetic with neutral and odd constants, views, concats, reductions.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed), graph_(std::make_unique<Graph>("fuzz")), builder_(*graph_, graph_->body, {}) {
    for (const Shape& shape : {Shape{2, 3}, Shape{3}, Shape{1, 3, 2}}) values_.push_back(graph_->add_input("x", Type(DType::f32, shape)));
    Tensor table(DType::f32, {2, 3});
    for (int64_t i = 0; i < 6; ++i) table.set_double(i, i - 2.5);
    values_.push_back(graph_->add_weight("table", table));
  }

  std::unique_ptr<Graph> take(int nodes) {
    for (int i = 0; i < nodes; ++i) values_.push_back(grow());
    for (size_t i = values_.size() - 3; i < values_.size(); ++i) graph_->add_output(values_[i], "y" + std::to_string(i));
    return std::move(graph_);
  }

 private:
  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }
  Value* any() { return values_[static_cast<size_t>(below(static_cast<int64_t>(values_.size())))]; }

  Value* grow() {
    Value* x = any();
    const Shape shape = x->type.shape();
    const int64_t rank = x->type.rank();
    switch (below(11)) {
      case 0: {
        constexpr Op ops[] = {Op::add_, Op::sub_, Op::mul_, Op::div_, Op::max_, Op::min_};
        constexpr double numbers[] = {0.0, -0.0, 1.0, -1.0, 2.0, 3.0, INFINITY, -INFINITY};
        Value* c = builder_.full(DType::f32, below(2) ? shape : Shape(), numbers[below(8)]);
        return below(2) ? builder_.emit(ops[below(6)], {x, c}) : builder_.emit(ops[below(6)], {c, x});
      }
      case 1: {
        constexpr Op ops[] = {Op::neg_, Op::abs_, Op::relu_, Op::floor_, Op::sign_, Op::identity_, Op::exp_};
        return builder_.emit(ops[below(7)], {x});
      }
      case 2: {
        std::vector<int64_t> permutation(static_cast<size_t>(rank));
        for (size_t i = 0; i < permutation.size(); ++i) permutation[i] = static_cast<int64_t>(i);
        std::shuffle(permutation.begin(), permutation.end(), random_);
        return builder_.emit(Op::transpose_, {x}, {{"permutation", permutation}});
      }
      case 3: {
        Shape other = shape;
        if (below(2)) other.insert(other.begin() + below(rank + 1), 1);
        else other = {x->type.count()};
        return builder_.emit(Op::reshape_, {x}, {{"shape", other}});
      }
      case 4: {
        std::vector<int64_t> starts, limits, steps;
        for (const int64_t extent : shape) {
          starts.push_back(below(extent + 1));
          limits.push_back(starts.back() + below(extent - starts.back() + 1));
          if (below(2)) starts.back() = 0, limits.back() = extent;
          steps.push_back(1 + below(2));
        }
        return builder_.emit(Op::slice_, {x}, {{"starts", starts}, {"limits", limits}, {"steps", steps}});
      }
      case 5: return rank == 0 ? x : builder_.emit(Op::concat_, {x, x}, {{"axis", below(rank)}});
      case 6: {
        Shape wide = shape;
        const int64_t place = below(rank + 1);
        wide.insert(wide.begin() + place, 1 + below(2));
        std::vector<int64_t> dims;
        for (int64_t axis = 0; axis < rank; ++axis) dims.push_back(axis + (axis >= place));
        return builder_.emit(Op::broadcast_in_dim_, {x}, {{"shape", wide}, {"dims", dims}});
      }
      case 7: return rank == 0 ? x : builder_.emit(Op::reverse_, {x}, {{"axes", std::vector<int64_t>{below(rank)}}});
      case 8: return rank == 0 ? x : builder_.emit(Op::reduce_max_, {x}, {{"axes", std::vector<int64_t>{below(rank)}}});
      case 9: {
        Value* condition = builder_.emit(below(2) ? Op::lt_ : Op::eq_, {x, builder_.full(DType::f32, {}, 0)});
        return builder_.emit(Op::select_,
                             {below(2) ? builder_.unary(Op::not_, condition) : condition, x, builder_.full(DType::f32, shape, 1)});
      }
      default: {
        constexpr DType dtypes[] = {DType::f64, DType::f16, DType::i32};
        return builder_.cast(builder_.cast(x, dtypes[below(3)]), DType::f32);
      }
    }
  }

  std::mt19937 random_;
  std::unique_ptr<Graph> graph_;
  Builder builder_;
  std::vector<Value*> values_;
};

void expect_same_bits(const std::vector<Tensor>& before, const std::vector<Tensor>& after) {
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_EQ(before[i].shape(), after[i].shape());
    for (int64_t k = 0; k < before[i].count(); ++k) {
      const double a = before[i].as_double(k), b = after[i].as_double(k);
      EXPECT_TRUE((std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b)))
          << "output " << i << " element " << k << ": " << a << ", then " << b;
    }
  }
}

TEST(Passes, RandomGraphsKeepTheirBits) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto graph = RandomGraph(seed).take(14);
    std::vector<Tensor> inputs;
    for (const Value* input : graph->body.args) {
      Tensor tensor(DType::f32, input->type.shape());
      constexpr double numbers[] = {0.0, -0.0, 1.5, -2.0, 3.25, INFINITY, NAN};
      for (int64_t k = 0; k < tensor.count(); ++k) tensor.set_double(k, numbers[(seed + static_cast<unsigned>(k) * 5) % 7]);
      inputs.push_back(tensor);
    }
    const std::vector<Tensor> before = interpret(*graph, inputs, false);
    const std::string original = print(*graph);
    for (int round = 0; round < 2; ++round) {
      canonicalize(*graph);
      const auto once = graph->clone();
      canonicalize(*graph);
      std::string why;
      EXPECT_TRUE(equal(*graph, *once, &why)) << "canonicalize, run twice: " << why;
      fold_constants(*graph);
      eliminate_common_subexpressions(*graph);
      eliminate_dead_code(*graph);
      Diagnostics diagnostics;
      if (round == 0) decompose(*graph, diagnostics);
    }
    EXPECT_EQ(faults(*graph, GraphStage::prims), "");
    expect_same_bits(before, interpret(*graph, inputs, false));
    if (HasFailure()) FAIL() << original << print(*graph);
  }
}

// A chain of pointwise ops, as long as asked, with views and constants between.
std::unique_ptr<Graph> chain(int length) {
  auto graph = std::make_unique<Graph>("chain");
  Value* x = graph->add_input("x", Type(DType::f32, {4, 8}));
  Builder builder(*graph, graph->body, {});
  for (int i = 0; i < length / 4; ++i) {
    x = builder.unary(Op::tanh_, x);
    x = builder.emit(Op::transpose_, {x}, {{"permutation", std::vector<int64_t>{1, 0}}});
    x = builder.emit(Op::mul_, {x, builder.full(DType::f32, {}, 1.0 + i)});
  }
  graph->add_output(x, "y");
  return graph;
}

double seconds_for(int length) {
  const std::clock_t start = std::clock();  // of this process: the machine may be busy
  const auto graph = chain(length);
  Diagnostics diagnostics;
  resolve(*graph, diagnostics);
  canonicalize(*graph);
  fold_constants(*graph);
  eliminate_common_subexpressions(*graph);
  eliminate_dead_code(*graph);
  EXPECT_EQ(faults(*graph, GraphStage::resolved), "");
  std::string why;
  EXPECT_TRUE(equal(*graph, *parse_graph(print(*graph), "", {}), &why)) << why;
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

TEST(Passes, TimeIsLinearInNodes) {
  seconds_for(1000);  // warms up tables
  const double small = seconds_for(4000), large = seconds_for(32000);
  EXPECT_LT(large, 8 * small * 4 + 0.05) << small << " s for 4000 nodes, " << large << " s for 32000";
}

/// Every op that has indices, at random: those inside the range, from either end, say nothing; one outside is named with its range, also when it is only
/// known after folding.
TEST(Passes, KnownIndicesOutsideTheirAxisAreErrors) {
  std::mt19937 random(7);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  struct Form {
    const char* call;  ///< X: extents of the data, I: of the indices, U: of the updates
    Shape indices, updates;
    bool tuples;
  };
  const Form forms[] = {{"gather(%x, @i) {axis=1}", {3}, {}, false},
                        {"gather_elements(%x, @i) {axis=1}", {2, 3}, {}, false},
                        {"gather_nd(%x, @i) {batch_dims=0}", {3, 2}, {}, true},
                        {"scatter_elements(%x, @i, %u) {axis=1, combiner=\"add\"}", {2, 3}, {2, 3}, false},
                        {"scatter_nd(%x, @i, %u) {combiner=\"assign\"}", {3, 2}, {3}, true}};
  for (int trial = 0; trial < 200; ++trial) {
    const Form& form = forms[trial % 5];
    const Shape data{2 + below(4), 1 + below(6)};
    Tensor indices(trial % 2 == 0 ? DType::i64 : DType::i32, form.indices);
    const auto extent_of = [&](int64_t i) { return data[form.tuples ? static_cast<size_t>(i % 2) : 1]; };
    for (int64_t i = 0; i < indices.count(); ++i) indices.set_int64(i, below(2 * extent_of(i)) - extent_of(i));
    const bool good = trial % 4 == 0;
    const int64_t at = below(indices.count()), extent = extent_of(at);
    const int64_t bad = below(2) == 0 ? extent + below(3) : -extent - 1 - below(3);
    if (!good) indices.set_int64(at, bad);
    const bool late = trial % 3 == 0;  // the sum is known when constants are folded, at the latest
    std::string values;
    for (int64_t i = 0; i < indices.count(); ++i) values += (i == 0 ? "" : ", ") + std::to_string(indices.as_int64(i) - (late ? 1 : 0));
    const std::string type = std::string(name_of(indices.dtype())) + to_string(form.indices), one = std::string(name_of(indices.dtype()));
    std::string call = form.call;
    if (late) call.replace(call.find("@i"), 2, "%j");
    const auto graph = parse_graph("graph @g(%x: f32" + to_string(data) + ", %u: f32" + to_string(form.updates) +
                                       ") -> (%y: f32[*]) {\nweight @i: " + type + " = [" + values + "]\nweight @one: " + one +
                                       "[] = [1]\n" + (late ? "%j: " + type + " = add(@i, @one)\n" : "") + "%y: f32[*] = " + call + "\n}",
                                   "", {});
    Diagnostics diagnostics;
    resolve(*graph, diagnostics);
    if (!diagnostics.has_errors()) fold_constants(*graph, true, &diagnostics);
    ASSERT_EQ(diagnostics.has_errors(), !good) << print(*graph);
    if (good) continue;
    const std::string message = diagnostics.all()[0].message,
                      wanted = "index " + std::to_string(bad) + " (element " + std::to_string(at) + " ";
    EXPECT_EQ(diagnostics.all()[0].kind, "index-out-of-range");
    EXPECT_TRUE(message.starts_with(wanted) && message.ends_with(std::to_string(-extent) + " to " + std::to_string(extent - 1)))
        << message << ", expected " << wanted;
  }
}

}  // namespace
}  // namespace tcc
