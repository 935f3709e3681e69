// The cut is the cheapest of all choices, by the cost model of docs/residuals.md: every subset is tried on small random graphs.
#include "residuals/min_cut.h"

#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <random>

#include "form_groups.h"
#include "residuals/recompute.h"
#include "tcc/rules/builder.h"
#include "tcc/schedule/schedule.h"

namespace tcc::residuals {
namespace {

/// A random graph with a forward and a backward half, and random costs in place of the measured ones.
class RandomJoint {
 public:
  explicit RandomJoint(uint32_t seed) : random_(seed), graph_("random"), builder_(graph_, graph_.body, Location{}) {}

  RecomputeCosts make(int num_forward, int num_backward) {
    const Type type(DType::f32, {4, 2});
    std::vector<Value*> values{graph_.add_input("x", type), graph_.add_weight("w", Tensor(DType::f32, {4, 2}))};
    auto any = [&] { return values[static_cast<size_t>(pick(0, static_cast<int64_t>(values.size()) - 1))]; };
    for (int i = 0; i < num_forward; ++i) {
      switch (pick(0, 4)) {
        case 0: values.push_back(builder_.emit(Op::exp_, {any()})); break;
        case 1: values.push_back(builder_.emit(Op::reverse_, {any()}, {{"axes", std::vector<int64_t>{0}}})); break;
        case 2: {
          Node* node = builder_.emit_node(Op::topk_, {any()}, {{"k", int64_t{4}}, {"axis", int64_t{0}}, {"largest", true}});
          values.push_back(node->result(0));
          values.push_back(builder_.cast(node->result(1), DType::f32));
          break;
        }
        default: values.push_back(builder_.emit(Op::add_, {any(), any()}));
      }
    }
    graph_.add_output(values.back(), "y");
    std::vector<Value*> gradients{graph_.add_input("cotangent.y", type)};
    for (int i = 0; i < num_backward; ++i) {
      builder_.set_loc({"", "n" + std::to_string(i), "grad"});
      gradients.push_back(builder_.emit(Op::mul_, {gradients.back(), any()}));
    }
    graph_.add_output(gradients.back(), "grad.x");
    RecomputeCosts costs = analyze(graph_, schedule::Target::cpu_v3(), form_groups);
    for (size_t i = 0; i < costs.recompute.size(); ++i) {
      if (costs.recompute[i] > 0 || !is_free(*graph_.body.nodes[i])) costs.recompute[i] = pick(0, 9);
    }
    for (Picoseconds& save : costs.save) save = pick(0, 9);
    for (int64_t& bytes : costs.priced_bytes) bytes = 1024 * pick(0, 4);
    return costs;
  }

  /// Nodes that may not be computed again; free ones always may.
  std::vector<char> keep_some() {
    std::vector<char> keep;
    for (const Node* node : graph_.body.nodes) keep.push_back(!is_free(*node) && pick(0, 3) == 0);
    return keep;
  }

 private:
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  std::mt19937 random_;
  Graph graph_;
  Builder builder_;
};

Picoseconds cheapest_of_all(const RecomputeCosts& costs, Picoseconds price, const std::vector<char>& keep) {
  std::vector<size_t> savable;
  for (size_t i = 0; i < costs.graph->body.nodes.size(); ++i) {
    if (!costs.needed_by_backward[i]) continue;
    for (const Value* result : costs.graph->body.nodes[i]->results) {
      if (costs.savable[static_cast<size_t>(result->id)]) savable.push_back(static_cast<size_t>(result->id));
    }
  }
  EXPECT_LE(savable.size(), 16u);
  Picoseconds best = -1;
  for (uint32_t set = 0; set < 1u << savable.size(); ++set) {
    Saved saved(costs.save.size());
    for (size_t i = 0; i < savable.size(); ++i) saved[savable[i]] = (set >> i & 1) != 0;
    const Picoseconds cost = cost_of(costs, saved, price, keep);
    if (cost >= 0 && (best < 0 || cost < best)) best = cost;
  }
  return best;
}

TEST(Cut, IsTheCheapestOfAllChoices) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    RandomJoint random(seed);
    const RecomputeCosts costs = random.make(9, 4);
    for (const Picoseconds price : {0, 1, 3, 20}) {
      for (const std::vector<char>& keep : {std::vector<char>(), random.keep_some()}) {
        const Picoseconds best = cheapest_of_all(costs, price, keep);
        ASSERT_EQ(cost_of(costs, cut(costs, price, keep), price, keep), best);
      }
    }
  }
}

/// A chain of n layers: h = dot(x, w); y = tanh(h); and its gradients.
std::unique_ptr<Graph> deep_chain(int layers) {
  auto graph = std::make_unique<Graph>("deep");
  Builder b(*graph, graph->body, Location{});
  Value* x = graph->add_input("x", Type(DType::f32, {256, 64}));
  const Attrs forward{{"lhs_batch", std::vector<int64_t>{}},
                      {"rhs_batch", std::vector<int64_t>{}},
                      {"lhs_contract", std::vector<int64_t>{1}},
                      {"rhs_contract", std::vector<int64_t>{0}},
                      {"dtype", DType::f32}};
  Attrs backward = forward, of_weight = forward;
  backward.set("rhs_contract", std::vector<int64_t>{1});
  of_weight.set("lhs_contract", std::vector<int64_t>{0});
  std::vector<Value*> inputs, results, weights;
  for (int i = 0; i < layers; ++i) {
    b.set_loc({"", "layer" + std::to_string(i), ""});
    weights.push_back(graph->add_weight("w" + std::to_string(i), Tensor(DType::f32, {64, 64})));
    inputs.push_back(x);
    Value* h = b.emit(Op::dot_general_, {x, weights.back()}, forward);
    x = b.emit(Op::tanh_, {h});
    results.push_back(x);
  }
  graph->add_output(x, "y");
  Value* g = graph->add_input("cotangent.y", x->type);
  for (int i = layers; i-- > 0;) {
    const size_t at = static_cast<size_t>(i);
    b.set_loc({"", "layer" + std::to_string(i), "grad"});
    g = b.mul(g, b.sub(b.full_like(results[at], 1), b.mul(results[at], results[at])));
    graph->add_output(b.emit(Op::dot_general_, {inputs[at], g}, of_weight), "grad.w" + std::to_string(i));
    if (i > 0) g = b.emit(Op::dot_general_, {g, weights[at]}, backward);
  }
  return graph;
}

/// Counts the processor's time, which other processes do not slow down.
double seconds(const std::function<void()>& work) {
  const std::clock_t start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

TEST(Cut, TakesLittleTimeOnLargeGraphs) {
  const auto small = deep_chain(450), large = deep_chain(1800);
  EXPECT_GT(small->body.nodes.size(), 4000u - 800u);
  const auto run = [](const Graph& graph) {
    const RecomputeCosts costs = analyze(graph, schedule::Target::cuda_sm80(), form_groups);
    for (const Picoseconds price : {0, 1000, 100000000}) recompute(costs, divide(costs, cut(costs, price)));
  };
  const double quick = seconds([&] { run(*small); }), slow = seconds([&] { run(*large); });
  RecordProperty("small_ms", static_cast<int>(quick * 1000));
  RecordProperty("large_ms", static_cast<int>(slow * 1000));
  EXPECT_LT(quick, 3 * 0.5);
  EXPECT_LT(slow, 12 * quick + 0.2);
}

}  // namespace
}  // namespace tcc::residuals
