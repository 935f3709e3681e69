// Recurrent layers: a `recurrent` for each layer and direction, with torch's orders of gates.
#include <algorithm>
#include <array>

#include "frontend/fx/handlers.h"
#include "tcc/rules/limits.h"

namespace tcc::fx {

namespace {

enum class Cell { gru, lstm, tanh, relu };

/// Of one layer in one direction. The biases and the projection of the state may be missing.
struct Weights {
  Value *input, *state, *input_bias = nullptr, *state_bias = nullptr, *projection = nullptr;
};

struct State {
  Value *h, *c = nullptr;
};

/// One layer in one direction over x [length, batch, size]: the states of all steps [length, batch, state], and the last one.
std::pair<Value*, State> run(Call& call, Cell cell, Value* x, const Weights& weights, State state, bool reversed) {
  const bool is_gru = cell == Cell::gru, is_lstm = cell == Cell::lstm;
  const std::string gates = is_gru ? "rzh" : is_lstm ? "ifco" : "h";
  const std::string activations = is_gru ? "sigmoid,tanh" : is_lstm ? "sigmoid,tanh,tanh" : cell == Cell::tanh ? "tanh" : "relu";
  const std::vector<double> numbers(is_gru ? 2 : is_lstm ? 3 : 1, 0);
  const Attrs attrs{{"gates", gates},      {"activations", activations}, {"alpha", numbers},      {"beta", numbers},
                    {"reverse", reversed}, {"reset_after", is_gru},      {"couple_forget", false}};
  std::vector<Value*> operands{x,       weights.input, weights.state, weights.input_bias, weights.state_bias, state.h,
                               state.c, nullptr,       nullptr,       weights.projection};
  while (operands.back() == nullptr) operands.pop_back();
  const Node* layer = call.build().emit_node(Op::recurrent_, std::move(operands), attrs, is_lstm ? 3 : 2);
  return {layer->result(0), {layer->result(1), is_lstm ? layer->result(2) : nullptr}};
}

/// The part of the first states that is a layer's in one direction, [batch, size].
Value* first_state(Builder& b, Value* all, int64_t i) {
  const Shape shape = shape_of(all);
  return b.reshape(b.slice(all, {i, 0, 0}, {i + 1, shape[1], shape[2]}), {shape[1], shape[2]});
}

Value* join_states(Builder& b, const std::vector<Value*>& states) {
  std::vector<Value*> rows;
  for (Value* state : states) rows.push_back(b.reshape(state, {1, shape_of(state)[0], shape_of(state)[1]}));
  return rows.size() == 1 ? rows[0] : b.concat(rows, 0);
}

std::vector<Weights> weights_of(Call& call, int64_t runs, bool may_project) {
  const std::vector<Value*> given = call.tensors("params");
  const size_t plain = call.flag("has_biases") ? 4 : 2, count = static_cast<size_t>(runs);
  const bool projects = may_project && given.size() == count * (plain + 1);
  const size_t each = plain + (projects ? 1 : 0);
  if (given.size() != count * each || std::any_of(given.begin(), given.end(), [](const Value* value) { return value == nullptr; }))
    Call::refuse("malformed-file", std::to_string(given.size()) + " weights for " + std::to_string(runs) + " layers and directions");
  std::vector<Weights> weights;
  for (size_t i = 0; i < count; ++i) {
    Value* const* own = &given[i * each];
    Weights& of_run = weights.emplace_back(Weights{own[0], own[1]});
    if (plain == 4) {
      of_run.input_bias = own[2];
      of_run.state_bias = own[3];
    }
    if (projects) of_run.projection = own[plain];
  }
  return weights;
}

Value* between_layers(Call& call, Value* x) {
  const double ratio = call.number("dropout");
  if (ratio == 0 || !call.flag("train")) return x;
  return call.emit(Op::dropout_, {x, call.seed()}, {{"ratio", ratio}, {"stream", call.count_random_op()}});
}

template <Cell cell> void import_recurrent(Call& call) {
  Builder& b = call.build();
  Value* x = call.in("input");
  const int64_t layers = call.integer("num_layers"), directions = call.flag("bidirectional") ? 2 : 1;
  if (x->type.rank() != 3 || x->type.count() == 0 || layers < 1)
    Call::refuse("type-error", "a recurrent layer over " + to_string(x->type) + ", [length, batch, size] was expected");
  const bool batch_first = call.flag("batch_first");
  if (batch_first) x = b.transpose(x, {1, 0, 2});
  const int64_t runs = times(layers, directions), made = times(runs, shape_of(x)[0]);
  if (made > kMaxMadeNodes)
    Call::refuse("too-complex",
                 std::to_string(made) + " steps of layers are unrolled, " + std::to_string(kMaxMadeNodes) + " at most are possible");
  const std::vector<Weights> weights = weights_of(call, runs, cell == Cell::lstm);
  const std::vector<Value*> first = cell == Cell::lstm ? call.tensors("hx") : std::vector<Value*>{call.in("hx")};
  for (const Value* state : first) {
    if (state == nullptr || state->type.rank() != 3 || shape_of(state)[0] != runs)
      Call::refuse("type-error", "`hx` has no state for each layer");
  }
  if (first.size() != (cell == Cell::lstm ? 2 : 1)) Call::refuse("malformed-file", "`hx` has " + std::to_string(first.size()) + " tensors");
  std::vector<Value*> last_h, last_c;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Value*> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t i = layer * directions + direction;
      State state{first_state(b, first[0], i), cell == Cell::lstm ? first_state(b, first[1], i) : nullptr};
      const auto [steps, last] = run(call, cell, x, weights[static_cast<size_t>(i)], state, direction == 1);
      outputs.push_back(steps);
      last_h.push_back(last.h);
      last_c.push_back(last.c);
    }
    x = outputs.size() == 1 ? outputs[0] : b.concat(outputs, 2);
    if (layer + 1 < layers) x = between_layers(call, x);
  }
  if (batch_first) x = b.transpose(x, {1, 0, 2});
  std::vector<Value*> results{x, join_states(b, last_h)};
  if (cell == Cell::lstm) {
    results.push_back(join_states(b, last_c));
    call.ignore_declared();  // of an LSTM, exports declare what a vendor's library gives: states with one axis more than those that come out
  }
  call.results(results);
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"gru.input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)", import_recurrent<Cell::gru>},
    {"lstm.input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)", import_recurrent<Cell::lstm>},
    {"rnn_tanh.input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)", import_recurrent<Cell::tanh>},
    {"rnn_relu.input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)", import_recurrent<Cell::relu>},
});

}  // namespace

std::span<const Handler> rnn_handlers() { return kHandlers; }

}  // namespace tcc::fx
