// Recurrent layers, unrolled over their steps. The products with the input are one for all steps; those with the state are one per step (two of a GRU
// that resets before its product), and what is left of a step is pointwise. ONNX names the gates, and the formulas are its:
//
//   plain  h = f(x W' + h R' + b)
//   GRU    z, r = f(x W' + h R' + b);  n = g(x W' + (r h) R' + b), or with reset_after g(x W' + b + r (h R' + b'));  h = (1 - z) n + z h
//   LSTM   i, f = f(x W' + h R' + p c + b);  c = f c + i g(x W' + h R' + b);  o = f(x W' + h R' + p c + b);  h = o h(c)
//
// Sequences shorter than the longest one (`lengths`) keep their state in the steps behind their end; run backwards they start at their own end, as what
// comes before changes nothing. x is zero there, so that nothing in it reaches a gradient.
// Of 16-bit floats the products are of that dtype, a step is computed in f32, and the cell state stays f32 from step to step.
#include <array>
#include <utility>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/rules_common.h"

namespace tcc {

namespace {

using Results = std::vector<Value*>;

struct Activation {
  std::string name;
  double alpha, beta;
};

Value* apply(Builder& b, const Activation& activation, Value* x) {
  const std::string& name = activation.name;
  const double alpha = activation.alpha, beta = activation.beta;
  if (name == "tanh") return b.unary(Op::tanh_, x);
  if (name == "sigmoid") return b.unary(Op::sigmoid_, x);
  if (name == "relu") return b.unary(Op::relu_, x);
  if (name == "softsign") return b.unary(Op::softsign_, x);
  if (name == "softplus") return b.unary(Op::softplus_, x);
  if (name == "affine") return b.binary(Op::add_, b.binary(Op::mul_, x, alpha), beta);
  if (name == "scaled_tanh") return b.binary(Op::mul_, b.unary(Op::tanh_, b.binary(Op::mul_, x, beta)), alpha);
  if (name == "leaky_relu") return b.emit(Op::leaky_relu_, {x}, {{"alpha", alpha}});
  if (name == "thresholded_relu") return b.emit(Op::thresholded_relu_, {x}, {{"alpha", alpha}});
  if (name == "hard_sigmoid") return b.emit(Op::hard_sigmoid_, {x}, {{"alpha", alpha}, {"beta", beta}});
  if (name == "elu") return b.emit(Op::elu_, {x}, {{"alpha", alpha}});
  throw RuleError{"unsupported-attribute", "`activations` has `" + name + "`, which is not known"};
}

std::vector<Activation> activations_of(const Attrs& attrs) {
  std::vector<Activation> all;
  std::string list = attrs.get_string("activations") + ",";
  for (size_t comma; (comma = list.find(',')) != std::string::npos; list.erase(0, comma + 1)) {
    const size_t i = all.size();
    all.push_back({list.substr(0, comma), attrs.get_floats("alpha")[i], attrs.get_floats("beta")[i]});
  }
  return all;
}

class Layer {
 public:
  Layer(Builder& b, const Node& node)
      : b_(b),
        attrs_(node.attrs),
        order_(attrs_.get_string("gates")),
        activations_(activations_of(attrs_)),
        x_(node.operand(0)),
        w_(node.operand(1)),
        r_(node.operand(2)),
        h_(optional(node, 5)),
        c_(optional(node, 6)),
        lengths_(optional(node, 7)),
        peepholes_(optional(node, 8)),
        projection_(optional(node, 9)),
        dtype_(rules::dtype_of(x_)),
        length_(rules::extent_of(x_, 0)),
        batch_(rules::extent_of(x_, 1)),
        hidden_(rules::extent_of(w_, 0) / static_cast<int64_t>(order_.size())),
        state_(rules::extent_of(r_, 1)) {
    input_bias_ = optional(node, 3);
    state_bias_ = optional(node, 4);
    // What is added outside of a reset is added once for all steps.
    if (state_bias_ != nullptr && !resets_product()) {
      input_bias_ = input_bias_ == nullptr ? state_bias_ : b_.add(input_bias_, state_bias_);
      state_bias_ = nullptr;
    }
    if (is_gru() && !resets_product()) {
      state_of_gates_ = b_.slice(r_, {0, 0}, {2 * hidden_, state_});
      state_of_fresh_ = b_.slice(r_, {2 * hidden_, 0}, {3 * hidden_, state_});
    }
  }

  Results run() {
    if (h_ == nullptr) h_ = zeros(dtype_, state_), starts_at_zero_ = true;
    if (is_lstm()) c_ = c_ == nullptr ? zeros(compute_dtype(dtype_), hidden_) : rules::widen(b_, c_);
    if (lengths_ != nullptr) mask_input();
    Value* all = length_ == 0 ? b_.full(dtype_, {0, batch_, state_}, 0) : run_steps();
    if (lengths_ != nullptr) {
      all = b_.select(within_, all, b_.full(dtype_, {}, 0));
      Value* any = b_.binary(Op::gt_, b_.reshape(lengths_, {batch_, 1}), 0.0);
      h_ = b_.select(any, h_, b_.full(dtype_, {}, 0));
      if (is_lstm()) c_ = b_.select(any, c_, b_.full_like(c_, 0));
    }
    if (is_lstm()) return {all, h_, b_.cast(c_, dtype_)};
    return {all, h_};
  }

 private:
  static Value* optional(const Node& node, size_t i) { return i < node.operands.size() ? node.operands[i] : nullptr; }
  bool is_gru() const { return order_.size() == 3; }
  bool is_lstm() const { return order_.size() == 4; }
  bool resets_product() const { return is_gru() && attrs_.get_bool("reset_after"); }
  Value* zeros(DType dtype, int64_t size) { return b_.full(dtype, {batch_, size}, 0); }

  /// Marks the steps that are within the lengths, and replaces x elsewhere.
  void mask_input() {
    Value* step = b_.iota(rules::dtype_of(lengths_), {length_, batch_}, 0);
    within_ = b_.reshape(b_.binary(Op::lt_, step, b_.broadcast_to(lengths_, {length_, batch_})), {length_, batch_, 1});
    x_ = b_.select(within_, x_, b_.full(dtype_, {}, 0));
  }

  Value* run_steps() {
    Value* rows = product(b_.reshape(x_, {length_ * batch_, rules::extent_of(x_, 2)}), w_, input_bias_);
    std::vector<Value*> states(static_cast<size_t>(length_));
    for (int64_t i = 0; i < length_; ++i) {
      const int64_t at = attrs_.get_bool("reverse") ? length_ - 1 - i : i;
      Value* of_input = rules::widen(b_, b_.slice(rows, {at * batch_, 0}, {(at + 1) * batch_, rules::extent_of(rows, 1)}));
      auto [h, c] = step(of_input);
      h = b_.cast(h, dtype_);
      if (projection_ != nullptr) h = product(h, projection_, nullptr);
      if (lengths_ != nullptr) {
        Value* within = b_.reshape(b_.slice(within_, {at, 0, 0}, {at + 1, batch_, 1}), {batch_, 1});
        h = b_.select(within, h, h_);
        if (c != nullptr) c = b_.select(within, c, c_);
      }
      h_ = h;
      c_ = c;
      starts_at_zero_ = false;
      states[static_cast<size_t>(at)] = b_.reshape(h, {1, batch_, state_});
    }
    return states.size() == 1 ? states[0] : b_.concat(states, 0);
  }

  /// x weights' + bias, of rows x.
  Value* product(Value* x, Value* weights, Value* bias) {
    std::vector<Value*> operands{x, weights};
    if (bias != nullptr) operands.push_back(bias);
    return b_.emit(Op::gemm_, operands, {{"alpha", 1.0}, {"beta", 1.0}, {"transpose_a", false}, {"transpose_b", true}});
  }

  /// What the state adds to `of_input`, of rows that `weights` has. Nothing where it is zero.
  Value* with_state(Value* of_input, Value* weights) {
    return starts_at_zero_ ? of_input : b_.add(of_input, rules::widen(b_, product(h_, weights, nullptr)));
  }

  Value* columns(Value* rows, int64_t i) { return b_.slice(rows, {0, i * hidden_}, {batch_, (i + 1) * hidden_}); }
  int64_t position(char gate) const { return static_cast<int64_t>(order_.find(gate)); }
  Value* activated(size_t which, Value* x) {
    if (attrs_.has("clip")) {
      const double clip = attrs_.get_float("clip");
      x = b_.emit(Op::clamp_, {x, b_.full_like(x, -clip), b_.full_like(x, clip)});
    }
    return apply(b_, activations_[which], x);
  }

  /// h and, of an LSTM, c after a step; h before its projection.
  std::pair<Value*, Value*> step(Value* of_input) {
    if (is_lstm()) return lstm_step(of_input);
    if (is_gru()) return {gru_step(of_input), nullptr};
    return {activated(0, with_state(of_input, r_)), nullptr};
  }

  Value* gru_step(Value* of_input) {
    Value* before = rules::widen(b_, h_);
    if (resets_product()) {
      Value* of_state = rules::widen(b_, product(h_, r_, state_bias_));
      const auto gate = [&](char name) {
        return activated(0, b_.add(columns(of_input, position(name)), columns(of_state, position(name))));
      };
      Value *keep = gate('z'), *reset = gate('r');
      Value* fresh = activated(1, b_.add(columns(of_input, 2), b_.mul(reset, columns(of_state, 2))));
      return b_.add(fresh, b_.mul(keep, b_.sub(before, fresh)));
    }
    Value* gates = activated(0, with_state(b_.slice(of_input, {0, 0}, {batch_, 2 * hidden_}), state_of_gates_));
    Value *keep = columns(gates, position('z')), *reset = columns(gates, position('r')), *fresh = columns(of_input, 2);
    if (!starts_at_zero_) {
      Value* remembered = b_.cast(b_.mul(reset, before), dtype_);
      fresh = b_.add(fresh, rules::widen(b_, product(remembered, state_of_fresh_, nullptr)));
    }
    fresh = activated(1, fresh);
    return b_.add(fresh, b_.mul(keep, b_.sub(before, fresh)));
  }

  std::pair<Value*, Value*> lstm_step(Value* of_input) {
    Value* sum = with_state(of_input, r_);
    const auto gate = [&](char name, Value* cell) {
      Value* x = columns(sum, position(name));
      if (peepholes_ == nullptr) return activated(0, x);
      const int64_t i = name == 'i' ? 0 : name == 'o' ? 1 : 2;
      Value* peephole = rules::widen(b_, b_.slice(peepholes_, {i * hidden_}, {(i + 1) * hidden_}));
      return activated(0, b_.add(x, b_.mul(b_.broadcast_to(peephole, {batch_, hidden_}), cell)));
    };
    Value* input = gate('i', c_);
    Value* forget = attrs_.get_bool("couple_forget") ? b_.sub(b_.full_like(input, 1), input) : gate('f', c_);
    Value* c = b_.add(b_.mul(forget, c_), b_.mul(input, activated(1, columns(sum, position('c')))));
    return {b_.mul(gate('o', c), apply(b_, activations_[2], c)), c};
  }

  Builder& b_;
  const Attrs& attrs_;
  const std::string order_;
  const std::vector<Activation> activations_;
  Value *x_, *w_, *r_, *h_, *c_, *lengths_, *peepholes_, *projection_;
  const DType dtype_;
  const int64_t length_, batch_, hidden_, state_;
  Value *input_bias_ = nullptr, *state_bias_ = nullptr;
  Value *state_of_gates_ = nullptr, *state_of_fresh_ = nullptr;  // rows of r_ that a GRU multiplies apart
  Value* within_ = nullptr;                                      // [length, batch, 1]: steps within the lengths
  bool starts_at_zero_ = false;
};

}  // namespace

Results decompose_recurrent(Builder& b, const Node& node) { return Layer(b, node).run(); }

}  // namespace tcc
