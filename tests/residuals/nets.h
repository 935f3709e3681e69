// Small networks with their gradients, as the driver makes them.
#pragma once

#include <random>

#include "autograd/to_prims.h"
#include "tcc/autograd/autograd.h"
#include "tcc/autograd/optimizer.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"

namespace tcc::residuals {

using test::to_prims;

inline Tensor random_tensor(const Type& type, std::mt19937& random) {
  Tensor tensor(type.dtype, type.shape());
  std::uniform_real_distribution<double> values(-1, 1);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (is_float(type.dtype)) tensor.set_double(i, values(random));
    else tensor.set_int64(i, static_cast<int64_t>(random() % 2));
  }
  return tensor;
}

/// Layers of a network by name: linear, gelu, relu, norm, attention, block (of a transformer).
class Net {
 public:
  Net(int64_t batch, int64_t length, int64_t width, uint32_t seed = 1)
      : random_(seed), graph_(std::make_unique<Graph>("net")), builder_(*graph_, graph_->body, Location{}), length_(length), width_(width) {
    x_ = graph_->add_input("x", Type(DType::f32, {batch, length, width}));
  }

  void add(const std::string& layer) {
    prefix_ = layer + std::to_string(count_++);
    if (layer == "block") {
      Value* before = x_;
      x_ = norm(x_, "ln1");
      x_ = builder_.add(before, attention(x_));
      before = x_;
      x_ = linear(builder_.emit(Op::gelu_, {linear(norm(x_, "ln2"), "fc1", 4 * width_)}, {{"approximate", std::string("none")}}), "fc2",
                  width_);
      x_ = builder_.add(before, x_);
    } else if (layer == "linear") {
      x_ = linear(x_, "fc", width_);
    } else if (layer == "norm") {
      x_ = norm(x_, "ln");
    } else if (layer == "attention") {
      x_ = builder_.add(x_, attention(x_));
    } else if (layer == "gelu") {
      x_ = builder_.emit(Op::gelu_, {x_}, {{"approximate", std::string("none")}});
    } else {
      x_ = builder_.emit(Op::relu_, {x_});
    }
  }

  /// A loss: mean squares.
  std::unique_ptr<Graph> joint() {
    graph_->add_output(x_, "y");
    GradOptions options;
    options.loss = parse_loss("mse");
    Diagnostics diagnostics;
    return build_joint(*graph_, options, diagnostics);
  }
  /// The loss of a language model: logits over a vocabulary, cross entropy.
  std::unique_ptr<Graph> language_model(int64_t vocabulary) {
    prefix_ = "head";
    at("logits");
    graph_->add_output(builder_.emit(Op::matmul_, {norm(x_, "ln"), weight("weight", {width_, vocabulary})}), "logits");
    GradOptions options;
    options.loss = parse_loss("cross_entropy:axis=-1");
    Diagnostics diagnostics;
    return build_joint(*graph_, options, diagnostics);
  }
  TrainingGraphs training(const char* optimizer) { return training(parse_optimizer(optimizer)); }
  TrainingGraphs training(const OptimizerOptions& options) {
    const auto with_loss = joint();
    return build_training(*with_loss, *graph_, options);
  }
  /// The gradients for a cotangent.
  std::unique_ptr<Graph> vjp() {
    graph_->add_output(x_, "y");
    Diagnostics diagnostics;
    return build_joint(*graph_, {}, diagnostics);
  }

 private:
  void at(const std::string& name) { builder_.set_loc({"", prefix_ + "/" + name, ""}); }
  Value* weight(const std::string& name, Shape shape) {
    return graph_->add_weight(prefix_ + "." + name, random_tensor(Type(DType::f32, std::move(shape)), random_));
  }
  Value* linear(Value* x, const std::string& name, int64_t outputs) {
    at(name);
    const int64_t inputs = x->type.shape().back();
    return builder_.add(builder_.emit(Op::matmul_, {x, weight(name + ".weight", {inputs, outputs})}), weight(name + ".bias", {outputs}));
  }
  Value* norm(Value* x, const std::string& name) {
    at(name);
    return builder_
        .emit_node(Op::layer_norm_, {x, weight(name + ".weight", {width_}), weight(name + ".bias", {width_})},
                   {{"axis", int64_t{2}}, {"epsilon", 1e-5}}, 1)
        ->result();
  }
  Value* attention(Value* x) {
    const Shape shape = x->type.shape();
    const int64_t heads = 2, size = width_ / heads;
    auto head = [&](const std::string& name, std::vector<int64_t> permutation) {
      Value* y = linear(x, name, width_);
      return builder_.transpose(builder_.reshape(y, {shape[0], length_, heads, size}), std::move(permutation));
    };
    Value *q = head("q", {0, 2, 1, 3}), *k = head("k", {0, 2, 3, 1}), *v = head("v", {0, 2, 1, 3});
    at("softmax");
    Value* p = builder_.emit(Op::softmax_, {builder_.binary(Op::mul_, builder_.emit(Op::matmul_, {q, k}), 0.5)}, {{"axis", int64_t{3}}});
    at("mix");
    Value* y = builder_.reshape(builder_.transpose(builder_.emit(Op::matmul_, {p, v}), {0, 2, 1, 3}), shape);
    return linear(y, "out", width_);
  }

  std::mt19937 random_;
  std::unique_ptr<Graph> graph_;
  Builder builder_;
  Value* x_ = nullptr;
  std::string prefix_;
  int64_t length_, width_;
  int count_ = 0;
};

inline std::vector<Tensor> random_inputs(const Graph& graph, uint32_t seed = 7) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (const Value* input : graph.body.args) inputs.push_back(random_tensor(input->type, random));
  return inputs;
}

/// The bytes that live at once when nodes run in order and views are free; time is one per node. Outputs of the graph do not count.
inline int64_t bytes_in_order(const Graph& graph) {
  const auto base = [](const Value* value) {
    while (value->producer && info(value->producer->op).lowering == Lowering::view) value = value->producer->operand(0);
    return value;
  };
  std::vector<int64_t> change(graph.body.nodes.size() + 1);
  std::vector<size_t> last(static_cast<size_t>(graph.num_values()));
  for (size_t i = 0; i < graph.body.nodes.size(); ++i) {
    for (const Value* operand : graph.body.nodes[i]->operands) last[static_cast<size_t>(base(operand)->id)] = i;
  }
  std::vector<char> output(last.size());
  for (const Value* result : graph.body.results) output[static_cast<size_t>(base(result)->id)] = 1;
  for (size_t i = 0; i < graph.body.nodes.size(); ++i) {
    const Lowering lowering = info(graph.body.nodes[i]->op).lowering;
    if (lowering == Lowering::view || lowering == Lowering::create) continue;
    for (const Value* result : graph.body.nodes[i]->results) {
      if (output[static_cast<size_t>(result->id)]) continue;
      change[i] += result->type.size_bytes();
      change[std::max(i, last[static_cast<size_t>(result->id)]) + 1] -= result->type.size_bytes();
    }
  }
  int64_t live = 0, peak = 0;
  for (const int64_t bytes : change) peak = std::max(peak, live += bytes);
  return peak;
}

}  // namespace tcc::residuals
