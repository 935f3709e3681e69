// The graph IR: one data structure for stages 1 to 5 (import, graph passes, autograd, prims, grouping).
//
//   graph @net(%x: f32[32, 784]) -> (%z: f32[32, 10]) {
//     %h: f32[32, 64] = gemm(%x, @fc1.weight, @fc1.bias) {alpha=1, beta=1, transpose_a=false, transpose_b=true}   loc("fc1/Gemm")
//     %z: f32[32, 10] = relu(%h)                                                                                  loc("relu/Relu")
//   }
//
// Rules for all nodes
// - Pure values: a node reads its operands and makes new values; nothing is written in place. Order in a region is topological.
// - Every value has a type. Before shapes are resolved it may be unranked or hold symbols; afterwards every dimension is constant (or bounded).
// - Floats are IEEE: NaN, infinities and signed zeros are kept; integer arithmetic wraps. Reductions and contractions may re-associate.
//   f16/bf16 sums and products accumulate in f32; each op rounds its result to its dtype, in a kernel where it is stored (docs/math.md).
// - Weights are read as `@name` values. The graph owns all values, nodes and weights; pointers stay valid while it lives.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "tcc/ops/op.h"
#include "tcc/support/dtype.h"
#include "tcc/support/shared_text.h"
#include "tcc/support/tensor.h"

namespace tcc {

// -------------------------------------------------------------------------------------------------------------- types

/// A dimension: a constant, `name<=bound` (a run-time i64 with a bound), or `name` alone (a symbol, until shapes are bound).
struct Dim {
  int64_t bound = -1;  ///< the constant, or the bound; -1: a symbol without a bound
  std::string symbol;  ///< empty: constant
  Dim() = default;
  Dim(int64_t constant) : bound(constant) {}  // NOLINT: a constant is a dimension
  explicit Dim(std::string name, int64_t upper = -1) : bound(upper), symbol(std::move(name)) {}
  bool is_constant() const { return symbol.empty(); }
  bool operator==(const Dim&) const = default;
};

/// How a tensor lies in memory when not row-major: `order` lists axes from slowest to fastest; an axis may be tiled (the tile becomes
/// the fastest axes, in the order given) and padded up to a multiple. Most types have none.
struct Layout {
  std::vector<int> order;
  struct Tile {
    int axis;
    int64_t size;
  };
  std::vector<Tile> tiles;
  std::vector<int64_t> padded;  ///< extent of each axis in memory; empty: as the type
  bool operator==(const Layout&) const = default;
};
inline bool operator==(const Layout::Tile& a, const Layout::Tile& b) { return a.axis == b.axis && a.size == b.size; }

struct Type {
  DType dtype = DType::f32;
  bool ranked = true;
  std::vector<Dim> dims;
  std::shared_ptr<const Layout> layout;

  Type() = default;
  Type(DType dtype, Shape shape);
  static Type unranked(DType dtype);
  int rank() const { return static_cast<int>(dims.size()); }
  bool is_static() const;  ///< ranked, every dimension constant
  Shape shape() const;     ///< requires is_static()
  int64_t count() const;   ///< requires is_static()
  int64_t size_bytes() const;
  bool operator==(const Type& other) const;
};
std::string to_string(const Type& type);  ///< "f32[2, n<=8, m]"; "f32[*]" when unranked

// --------------------------------------------------------------------------------------------------------- attributes

using AttrValue = std::variant<bool, int64_t, double, std::string, DType, std::vector<int64_t>, std::vector<double>>;

/// Attributes of a node, sorted by name; copies share them until one is changed. Getters throw an internal error when the attribute is missing or of another kind.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, AttrValue>> list);
  void set(std::string_view name, AttrValue value);
  void erase(std::string_view name);
  const AttrValue* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool get_bool(std::string_view name) const;
  int64_t get_int(std::string_view name) const;
  double get_float(std::string_view name) const;  ///< also from int
  const std::string& get_string(std::string_view name) const;
  DType get_dtype(std::string_view name) const;
  const std::vector<int64_t>& get_ints(std::string_view name) const;
  const std::vector<double>& get_floats(std::string_view name) const;
  using List = std::vector<std::pair<std::string, AttrValue>>;
  const List& all() const;
  bool operator==(const Attrs& other) const { return list_ == other.list_ || all() == other.all(); }

 private:
  List& changed();  ///< a list that no copy has

  std::shared_ptr<List> list_;  ///< null: none
};

// -------------------------------------------------------------------------------------------- values, nodes, regions

struct Node;
struct Region;
class Graph;

/// Where a node came from. `node` is the model's own name ("layer3/conv/Conv"); `file` the model file. `phase`: "", "grad" or "update".
struct Location {
  SharedText file;
  SharedText node;
  std::string phase;
  bool operator==(const Location&) const = default;
};

/// A named constant tensor of the model (an initializer or parameter) or one that a pass made.
struct Weight {
  std::string name;
  Tensor tensor;
  bool from_model = true;  ///< a parameter; false: a buffer, a constant that the model has in a node (ONNX Constant), or made by a pass
  bool is_buffer = false;  ///< of the model, and no parameter: it never trains, yet a batch norm that trains may keep its statistics there
  /// The model itself changes it when it runs (a buffer: a counter, running statistics, a cache of keys and values): `tensor` is what it holds at first.
  /// It is not a constant, and equals no other tensor.
  bool is_state = false;
};

struct Value {
  enum class Kind : uint8_t { input, result, region_arg, weight };
  Kind kind = Kind::result;
  int id = 0;        ///< unique in its graph, in creation order
  std::string name;  ///< unique in its graph; for weights, the weight's name
  Type type;
  Node* producer = nullptr;  ///< for results
  int index = 0;             ///< which result, input or argument
  Weight* weight = nullptr;  ///< for weights
};

struct Node {
  Op op;
  std::vector<Value*> operands;  ///< nullptr: an absent optional operand
  std::vector<Value*> results;
  Attrs attrs;
  std::vector<std::unique_ptr<Region>> regions;  ///< if, while, scan, call; values from outside are captured by name
  Location loc;
  int id = 0;
  Value* result(int i = 0) const { return results[static_cast<size_t>(i)]; }
  Value* operand(int i) const { return i < static_cast<int>(operands.size()) ? operands[static_cast<size_t>(i)] : nullptr; }
};

struct Region {
  std::vector<Value*> args;
  std::vector<Node*> nodes;  ///< topological order
  std::vector<Value*> results;
};

/// What `state(...)` of a graph returns: the value of a weight after the run. What reads the weight in the graph sees the one before.
struct StateUpdate {
  Weight* weight;
  Value* value;
};

class Graph {
 public:
  explicit Graph(std::string graph_name = "model");
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string name;
  std::string file;                       ///< the model file, for messages
  Region body;                            ///< args: the inputs; results: the outputs
  std::vector<std::string> output_names;  ///< names the outside sees; as many as body.results
  std::vector<StateUpdate> state_updates;

  Value* add_input(std::string_view name, Type type);
  /// Appends to the outputs. The same value may be returned twice; an input or weight may be an output.
  void add_output(Value* value, std::string_view name);
  /// The value that reads a weight; made on first use. `name` is made unique if another tensor has it.
  Value* add_weight(std::string_view name, Tensor tensor, bool from_model = true);
  Value* find_weight(std::string_view name) const;  ///< nullptr when there is none

  /// Makes a weight state of the model, which holds `value` after each run.
  void update_state(Value* weight, Value* value);

  /// A node with results of the given types, not yet in any region. Result names are made unique from `name_hint`.
  Node* make_node(Op op, std::vector<Value*> operands, Attrs attrs, std::vector<Type> result_types, Location loc,
                  std::string_view name_hint = "");
  Value* make_value(Value::Kind kind, Type type, std::string_view name_hint);
  /// Renames a value that is not a weight, made unique from the hint: each result of a node may have one of its own.
  void rename(Value* value, std::string_view name_hint);

  const std::deque<std::unique_ptr<Weight>>& weights() const { return weights_; }
  /// Drops weights that nothing reads (body, outputs, regions, state).
  void remove_unused_weights();
  int num_values() const { return static_cast<int>(values_.size()); }  ///< ids are below this

  std::unique_ptr<Graph> clone() const;

 private:
  std::string unique_name(std::string_view hint);
  std::deque<std::unique_ptr<Value>> values_;
  std::deque<std::unique_ptr<Node>> nodes_;
  std::deque<std::unique_ptr<Weight>> weights_;
  std::unordered_map<std::string, Value*> weight_values_;
  std::unordered_map<std::string, int> names_;
  int next_node_id_ = 0;
};

/// Replaces operands, outputs and state values by what `map` has for them (following chains), in the whole graph.
void replace_values(Graph& graph, const std::unordered_map<Value*, Value*>& map);
/// For each value id: how many operands, outputs and state updates read it.
std::vector<int> count_uses(const Graph& graph);

// ------------------------------------------------------------------------------------------------------------- text

struct PrintOptions {
  bool locations = true;
  std::string weights_file;    ///< writes `weights "<file>"` first when not empty
  int64_t small_weights = -1;  ///< weights of at most so many elements are declared with their values, for tests and for reading
};
std::string print(const Graph& graph, const PrintOptions& options = {});
std::string print(const Node& node);  ///< one line, as inside a graph
/// Parses what print wrote. Weights get their tensors from `weights` (by name); a missing one is an error unless `types_only`, which makes
/// each weight a tensor of zeros with the type of its declaration. A weight declared with values (`weight @s: i64[2] = [2, 3]`) needs none.
std::unique_ptr<Graph> parse_graph(std::string_view text, const std::string& file, const std::map<std::string, Tensor>& weights,
                                   bool types_only = false);
/// Structural equality: names of inner values, locations and spacing don't matter; names of inputs, outputs and weights do.
/// On a difference `why` says where.
bool equal(const Graph& a, const Graph& b, std::string* why = nullptr);

}  // namespace tcc
