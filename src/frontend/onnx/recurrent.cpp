// RNN, GRU and LSTM: a `recurrent` layer for each direction, whose results are stacked.
#include <algorithm>
#include <array>
#include <cctype>

#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/handlers.h"
#include "frontend/onnx/recurrent.h"

namespace tcc::onnx {

namespace {

struct Activation {
  std::string_view name, ours;
  int num_numbers;  ///< 1: takes alpha, 2: alpha and beta
  bool has_default;
  double alpha, beta;
};

// Defaults are those of the operators of the same names; there are none of Affine and ScaledTanh.
constexpr auto kActivations = std::to_array<Activation>({
    {"Relu", "relu", 0, true, 0, 0},
    {"Tanh", "tanh", 0, true, 0, 0},
    {"Sigmoid", "sigmoid", 0, true, 0, 0},
    {"Affine", "affine", 2, false, 0, 0},
    {"LeakyRelu", "leaky_relu", 1, true, 0.01F, 0},
    {"ThresholdedRelu", "thresholded_relu", 1, true, 1, 0},
    {"ScaledTanh", "scaled_tanh", 2, false, 0, 0},
    {"HardSigmoid", "hard_sigmoid", 2, true, 0.2F, 0.5F},
    {"Elu", "elu", 1, true, 1, 0},
    {"Softsign", "softsign", 0, true, 0, 0},
    {"Softplus", "softplus", 0, true, 0, 0},
});

std::string lower(std::string_view text) {
  std::string result;
  for (const char c : text) result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

const Activation& activation_named(NodeContext& node, const std::string& name) {
  for (const Activation& known : kActivations) {
    if (lower(known.name) == lower(name)) return known;  // ONNX Runtime takes any case, and so do the files written for it
  }
  node.refuse("unsupported-attribute", "`activations` has `" + name + "`, which is not one of ONNX's activations of recurrent layers");
}

/// The activations of each direction. Each takes its numbers from the front of what the activations before it have left.
std::vector<Activations> activations_of(NodeContext& node, const std::vector<std::string>& otherwise, int64_t directions) {
  std::vector<std::string> names = node.texts("activations");
  std::vector<double> alphas = node.numbers("activation_alpha"), betas = node.numbers("activation_beta");
  const size_t each = otherwise.size(), expected = each * static_cast<size_t>(directions);
  if (names.empty()) {
    for (int64_t i = 0; i < directions; ++i) names.insert(names.end(), otherwise.begin(), otherwise.end());
  }
  if (names.size() != expected)
    node.refuse("malformed-file", "`activations` has " + std::to_string(names.size()) + " names, expected are " + std::to_string(expected));
  size_t alpha = 0, beta = 0;
  const auto take = [&](const Activation& known, const std::vector<double>& numbers, size_t& at, double otherwise, const char* attribute) {
    if (at < numbers.size()) return numbers[at++];
    if (!known.has_default)
      node.refuse("malformed-file",
                  "attribute `" + std::string(attribute) + "` has no number for " + std::string(known.name) + ", which has no default");
    return otherwise;
  };
  std::vector<Activations> all(static_cast<size_t>(directions));
  for (size_t i = 0; i < names.size(); ++i) {
    const Activation& known = activation_named(node, names[i]);
    Activations& own = all[i / each];
    own.names += (own.names.empty() ? "" : ",") + std::string(known.ours);
    own.alpha.push_back(known.num_numbers > 0 ? take(known, alphas, alpha, known.alpha, "activation_alpha") : 0);
    own.beta.push_back(known.num_numbers > 1 ? take(known, betas, beta, known.beta, "activation_beta") : 0);
  }
  return all;
}

int64_t num_directions(NodeContext& node, const std::string& direction) {
  if (direction == "bidirectional") return 2;
  if (direction == "forward" || direction == "reverse") return 1;
  node.refuse("unsupported-attribute", "`direction` is `" + direction + "`, forward, reverse and bidirectional are known");
}

/// The lengths of the sequences; null where each is known to fill all steps.
Value* lengths_of(NodeContext& node, int operand, const Dim& steps) {
  if (!node.has(operand)) return nullptr;
  const auto lengths = node.constant(operand);
  if (!lengths || !steps.is_constant()) return node.in(operand);
  bool all_fill = true;
  for (int64_t i = 0; i < lengths->count(); ++i) {
    const int64_t length = lengths->as_int64(i);
    if (length < 0 || length > steps.bound)
      node.refuse("type-error", "`sequence_lens` has " + std::to_string(length) + ", there are " + std::to_string(steps.bound) + " steps");
    all_fill = all_fill && length == steps.bound;
  }
  return all_fill ? nullptr : node.in(operand);
}

void check_hidden_size(NodeContext& node, const Value* r, int64_t hidden) {
  if (node.has_attribute("hidden_size") && node.integer("hidden_size") != hidden)
    node.refuse("type-error",
                "`hidden_size` is " + std::to_string(node.integer("hidden_size")) + ", the recurrent weights are " + to_string(r->type));
}

/// Checks what is known of the shape of an operand; -1: any size. Parts of it are taken, so a larger one would go unnoticed.
void expect_shape(NodeContext& node, const Value* value, const char* name, const Shape& shape) {
  if (value == nullptr) return;
  const Type type = node.type_of(value);
  if (!type.ranked) return;
  bool fits = type.rank() == static_cast<int>(shape.size());
  std::string expected;
  for (size_t i = 0; i < shape.size(); ++i) {
    expected += (i == 0 ? "" : ", ") + (shape[i] < 0 ? std::string("?") : std::to_string(shape[i]));
    fits = fits && (shape[i] < 0 || !type.dims[i].is_constant() || type.dims[i].bound == shape[i]);
  }
  if (!fits) node.refuse("type-error", "`" + std::string(name) + "` is " + to_string(type) + ", [" + expected + "] was expected");
}

}  // namespace

RecurrentForm read_recurrent_form(NodeContext& node, const std::string& gates, const std::vector<std::string>& activations) {
  RecurrentForm form;
  form.gates = gates;
  const std::string direction = node.text("direction", "forward");
  form.directions = num_directions(node, direction);
  form.first_is_reverse = direction == "reverse";
  form.activations = activations_of(node, activations, form.directions);
  if (node.has_attribute("clip")) {
    form.clip = node.number("clip", 0);
    if (!(*form.clip > 0)) node.refuse("unsupported-attribute", "`clip` is " + std::to_string(*form.clip) + ", more than 0 was expected");
  }
  return form;
}

void import_recurrent(NodeContext& node, const RecurrentForm& form, RecurrentOperands operands) {
  Arithmetic m(node);
  const bool batch_first = form.batch_first;
  Value* x = batch_first ? m.transpose(operands.x, {1, 0, 2}) : operands.x;
  const Type type = node.type_of(x), weights = node.type_of(operands.r);
  const auto gates = static_cast<int64_t>(form.gates.size());
  if (!weights.ranked || weights.rank() != 3 || !weights.is_static() || weights.shape()[0] != form.directions)
    node.refuse("type-error", "the recurrent weights are " + to_string(weights) + ", [" + std::to_string(form.directions) + ", " +
                                  std::to_string(gates) + " * hidden_size, hidden_size] was expected");
  if (type.ranked && type.rank() != 3)
    node.refuse("type-error", "a recurrent layer over " + to_string(type) + ", " +
                                  (batch_first ? "[batch, length, size]" : "[length, batch, size]") + " was expected");
  const int64_t hidden = weights.shape()[2];
  check_hidden_size(node, operands.r, hidden);
  const Shape state = batch_first ? Shape{-1, form.directions, hidden} : Shape{form.directions, -1, hidden};
  expect_shape(node, operands.r, "R", {form.directions, gates * hidden, hidden});
  expect_shape(node, operands.w, "W", {form.directions, gates * hidden, -1});
  expect_shape(node, operands.biases, "B", {form.directions, 2 * gates * hidden});
  expect_shape(node, operands.h, "initial_h", state);
  expect_shape(node, operands.c, "initial_c", state);
  expect_shape(node, operands.peepholes, "P", {form.directions, 3 * hidden});
  Value* lengths = lengths_of(node, operands.lengths, type.ranked ? type.dims[0] : Dim(std::string("?")));
  const auto of_direction = [&](Value* value, int64_t i, int64_t axis) { return value == nullptr ? nullptr : m.element(value, i, axis); };

  std::vector<std::vector<Value*>> results(gates == 4 ? 3 : 2);
  for (int64_t i = 0; i < form.directions; ++i) {
    const Activations& own = form.activations[static_cast<size_t>(i)];
    Value *bias = of_direction(operands.biases, i, 0), *w_bias = nullptr, *r_bias = nullptr;
    if (bias != nullptr) {
      w_bias = m.part(bias, 0, gates * hidden, 0);
      r_bias = m.part(bias, gates * hidden, 2 * gates * hidden, 0);
    }
    Attrs attrs{{"gates", form.gates},
                {"activations", own.names},
                {"alpha", own.alpha},
                {"beta", own.beta},
                {"reverse", form.first_is_reverse || i == 1},
                {"reset_after", form.reset_after},
                {"couple_forget", form.couple_forget}};
    if (form.clip) attrs.set("clip", *form.clip);
    std::vector<Value*> all{x,
                            of_direction(operands.w, i, 0),
                            of_direction(operands.r, i, 0),
                            w_bias,
                            r_bias,
                            of_direction(operands.h, i, batch_first ? 1 : 0),
                            of_direction(operands.c, i, batch_first ? 1 : 0),
                            lengths,
                            of_direction(operands.peepholes, i, 0)};
    while (all.back() == nullptr) all.pop_back();
    const Node* layer = node.build().emit_node(Op::recurrent_, std::move(all), std::move(attrs), static_cast<int>(results.size()));
    for (size_t k = 0; k < results.size(); ++k) results[k].push_back(layer->result(static_cast<int>(k)));
  }
  if (batch_first) {
    for (Value*& states : results[0]) states = m.transpose(states, {1, 0, 2});
  }
  node.set(0, m.stacked(results[0], batch_first ? 2 : 1));
  for (size_t k = 1; k < results.size(); ++k) node.set(static_cast<int>(k), m.stacked(results[k], batch_first ? 1 : 0));
}

namespace {

RecurrentForm form_of(NodeContext& node, const std::string& gates, const std::vector<std::string>& activations) {
  RecurrentForm form = read_recurrent_form(node, gates, activations);
  if (node.opset() < 7) node.ignore("output_sequence");  // what it asks for is there when it has a name
  if (node.opset() >= 14) form.batch_first = node.flag("layout", false);
  return form;
}

RecurrentOperands operands_of(NodeContext& node) {
  return {.x = node.in(0),
          .w = node.in(1),
          .r = node.in(2),
          .biases = node.maybe(3),
          .lengths = 4,
          .h = node.maybe(5),
          .c = nullptr,
          .peepholes = nullptr};
}

void import_rnn(NodeContext& node) { import_recurrent(node, form_of(node, "h", {"Tanh"}), operands_of(node)); }

void import_gru(NodeContext& node) {
  RecurrentForm form = form_of(node, "zrh", {"Sigmoid", "Tanh"});
  form.reset_after = node.flag("linear_before_reset", false);
  import_recurrent(node, form, operands_of(node));
}

void import_lstm(NodeContext& node) {
  RecurrentForm form = form_of(node, "iofc", {"Sigmoid", "Tanh", "Tanh"});
  form.couple_forget = node.flag("input_forget", false);
  RecurrentOperands operands = operands_of(node);
  operands.c = node.maybe(6);
  operands.peepholes = node.maybe(7);
  import_recurrent(node, form, operands);
}

/// [directions, size, columns] of integers, with a scale (and zero point) for each direction or each of its columns, as a float [directions, columns, size].
Value* dequantized_weights(NodeContext& node, int weights, int scale, int zero) {
  Arithmetic m(node);
  const auto spread = [&](Value* x) {
    return m.unsqueeze(x, node.type_of(x).rank() == 1 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1});
  };
  for (const int i : {scale, zero}) {
    if (!node.has(i)) continue;
    if (const int64_t rank = node.rank(i); rank != 1 && rank != 2)
      node.refuse("type-error", "operand " + std::to_string(i) + " is " + to_string(node.type_of(node.in(i))) +
                                    ", [directions] or [directions, columns] was expected");
  }
  const DType dtype = node.dtype(scale);
  Value* x = m.cast(node.in(weights), dtype);
  if (node.has(zero)) x = m.sub(x, spread(m.cast(node.in(zero), dtype)));
  return m.transpose(m.mul(x, spread(node.in(scale))), {0, 2, 1});
}

/// An LSTM with weights of integers. Its products are of floats: ONNX Runtime rounds their other operand to integers, too, for speed alone.
void import_dynamic_quantize_lstm(NodeContext& node) {
  RecurrentForm form = read_recurrent_form(node, "iofc", {"Sigmoid", "Tanh", "Tanh"});
  form.couple_forget = node.flag("input_forget", false);
  import_recurrent(node, form,
                   {.x = node.in(0),
                    .w = dequantized_weights(node, 1, 8, 9),
                    .r = dequantized_weights(node, 2, 10, 11),
                    .biases = node.maybe(3),
                    .lengths = 4,
                    .h = node.maybe(5),
                    .c = node.maybe(6),
                    .peepholes = node.maybe(7)});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "GRU", import_gru},
    {"", "LSTM", import_lstm},
    {"", "RNN", import_rnn},
    {"com.microsoft", "DynamicQuantizeLSTM", import_dynamic_quantize_lstm},
});

}  // namespace

std::span<const Handler> recurrent_handlers() { return kHandlers; }

}  // namespace tcc::onnx
