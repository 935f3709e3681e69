// bind-shapes: gives inputs the sizes and values that the command line binds.
//   in:   a graph as imported, and bindings        out: bound inputs have constant extents; inputs bound to a value are constants
//     graph @net(%x: f32[n, 3], %k: i64[]) ...      with --shapes=x:8x3 --bind=k=2
//   becomes
//     graph @net(%x: f32[8, 3]) ... { weight @k: i64[] made ...
// A symbol that one input fixes is fixed in all inputs; equal names mean equal sizes. Symbols may be expressions of others (`2*n + 1`), as exporters
// write them: they follow when theirs are known. Types of inner values are left to resolve, which infers them anew.

#include <algorithm>
#include <unordered_map>

#include "passes/size_expression.h"
#include "tcc/passes/passes.h"
#include "tcc/support/suggest.h"

namespace tcc {
namespace {

std::string where_of_input(const Graph& graph, const std::string& input) { return graph.file.empty() ? input : graph.file + ":" + input; }

class ShapeBinder {
 public:
  explicit ShapeBinder(Graph& graph) : graph_(graph) {}

  Value& input(const std::string& name, const char* flag) {
    std::vector<std::string> known;
    for (Value* value : graph_.body.args) {
      if (value->name == name) return *value;
      known.push_back(value->name);
    }
    throw Error(ExitCode::usage, "unknown-input", graph_.file, std::string(flag) + ": `" + name + "` is not an input of the model",
                known.empty() ? "the model has no inputs" : suggest(name, "inputs", known));
  }

  void bind_symbol(const std::string& symbol, int64_t extent, const std::string& where) {
    if (extent < 0)
      throw Error(ExitCode::usage, "unbound-size", where,
                  "size `" + symbol + "` is " + std::to_string(extent) + ", expected no negative number");
    const auto [entry, is_new] = symbols_.emplace(symbol, extent);
    if (is_new || entry->second == extent) return;
    throw Error(ExitCode::model, "unbound-size", where,
                "size `" + symbol + "` is " + std::to_string(extent) + " here and " + std::to_string(entry->second) + " elsewhere",
                "equal names mean equal sizes");
  }

  void bind_type(Value& input, const Shape& shape) {
    const std::string where = where_of_input(graph_, input.name);
    Type& type = input.type;
    const Type given(type.dtype, shape);
    if (type.ranked && type.dims.size() != shape.size()) {
      throw Error(ExitCode::model, "type-error", where,
                  "the sizes given are " + to_string(std::span<const int64_t>(shape)) + ", the model declares " + to_string(type));
    }
    for (size_t i = 0; type.ranked && i < shape.size(); ++i) {
      const Dim& dim = type.dims[i];
      const bool fits = dim.is_constant() ? dim.bound == shape[i] : dim.bound < 0 || shape[i] <= dim.bound;
      if (!fits || shape[i] < 0) {
        throw Error(ExitCode::model, "type-error", where,
                    "axis " + std::to_string(i) + " is given as " + std::to_string(shape[i]) + ", the model declares " + to_string(type));
      }
      if (!dim.is_constant() && dim.symbol != "?") bind_symbol(dim.symbol, shape[i], where);
    }
    type = given;
  }

  void apply_symbols() {
    for (Value* input : graph_.body.args) {
      for (Dim& dim : input->type.dims) {
        if (dim.is_constant()) continue;
        const std::optional<int64_t> extent = evaluate_size(dim.symbol, symbols_);
        if (!extent) continue;
        if (*extent < 0 || (dim.bound >= 0 && *extent > dim.bound)) {
          throw Error(ExitCode::model, "type-error", where_of_input(graph_, input->name),
                      "size `" + dim.symbol + "` is " + std::to_string(*extent) + ", the model declares " + to_string(input->type));
        }
        dim = Dim(*extent);
      }
    }
  }

  void check_symbols(const std::map<std::string, int64_t>& wanted) {
    for (const auto& [symbol, extent] : wanted) {
      bool known = false;
      for (const Value* input : graph_.body.args) {
        known = known || std::any_of(input->type.dims.begin(), input->type.dims.end(),
                                     [&](const Dim& dim) { return size_expression_uses(dim.symbol, symbol); });
      }
      if (!known) throw Error(ExitCode::usage, "invalid-argument", graph_.file, "no input has a size `" + symbol + "` to bind");
      bind_symbol(symbol, extent, graph_.file);
    }
  }

  void bind_value(Value& input, const Tensor& tensor) {
    if (tensor.dtype() != input.type.dtype) {
      throw Error(
          ExitCode::model, "type-error", where_of_input(graph_, input.name),
          "the value to bind is " + to_string(Type(tensor.dtype(), tensor.shape())) + ", the model declares " + to_string(input.type));
    }
    bind_type(input, tensor.shape());
    constants_[&input] = graph_.add_weight(input.name, tensor, false);
  }

  void remove_bound_inputs() {
    replace_values(graph_, constants_);
    std::erase_if(graph_.body.args, [&](Value* input) { return constants_.contains(input); });
    for (size_t i = 0; i < graph_.body.args.size(); ++i) graph_.body.args[i]->index = static_cast<int>(i);
  }

 private:
  Graph& graph_;
  std::map<std::string, int64_t> symbols_;
  std::unordered_map<Value*, Value*> constants_;
};

}  // namespace

void bind_shapes(Graph& graph, const Bindings& bindings) {
  ShapeBinder binder(graph);
  binder.check_symbols(bindings.symbols);
  for (const auto& [name, shape] : bindings.shapes) binder.bind_type(binder.input(name, "--shapes"), shape);
  for (const auto& [name, tensor] : bindings.inputs) binder.bind_value(binder.input(name, "--bind"), tensor);
  binder.apply_symbols();
  binder.remove_bound_inputs();
}

}  // namespace tcc
