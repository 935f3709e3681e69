// Walks a captured program and calls the handler of each node. What importers of all formats need is in frontend/base.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/base/faults.h"
#include "frontend/base/missing_ops.h"
#include "frontend/base/names.h"
#include "frontend/base/random_ops.h"
#include "frontend/base/scope.h"
#include "frontend/base/shape_arithmetic.h"
#include "frontend/fx/call.h"
#include "frontend/fx/signature.h"
#include "tcc/frontend/import.h"

namespace tcc::fx {

/// Tensors of parameters, buffers and constants, by dotted name. Nothing for a name that has none: it becomes an input of the graph.
using WeightSource = std::function<std::optional<Tensor>(const InputSpec& input, const TensorMeta& meta)>;

/// What a name of the program stands for: a tensor, or a number that is known.
struct Slot {
  std::shared_ptr<Alias> tensor;
  std::optional<Number> number;
};

class Importer {
 public:
  Importer(const Program& program, std::string file, WeightSource weights, const ImportOptions& options, Diagnostics& diagnostics);
  std::unique_ptr<Graph> run();
  // What run() does, in steps: programs of one file are bound together.
  /// Reports the operators that are missing, without a checkpoint.
  void check_ops();
  /// Declares the inputs of the graph.
  void declare();
  const Graph& signature() const { return *graph_; }
  /// Symbols that the program reads and that are no size of a tensor among its inputs.
  std::vector<std::string> free_sizes() const;
  /// The rest of the import.
  std::unique_ptr<Graph> import(Bindings bindings);

  // For Call.
  const Slot* find(const std::string& name) const { return scope().find(name); }
  std::optional<int64_t> evaluate(const SizeExpr& expr) const { return fx::evaluate(expr, symbols_); }
  RandomOps& random_ops() { return random_ops_; }
  /// Another operator with these tensors behind the names of its arguments, appended by `builder`; its results. See rebuilt.h.
  std::vector<std::vector<Value*>> import_apart(Builder& builder, const ProgramNode& node, const std::map<std::string, Value*>& tensors);

 private:
  // ---- inputs and outputs (interface.cpp)
  void add_inputs();
  void add_input(const InputSpec& input);
  std::string sizes_at_capture() const;
  void bind_inputs(Bindings bindings);
  void learn_symbols();
  void check_ranges();
  void check_guards();
  void check_guard(const Guard& guard);
  void check_elements(const Guard& guard, Alias& tensor);
  /// The result, after the checks of guards on elements that none has made yet (guards.cpp).
  Value* guarded(Value* result, Builder& builder);
  void add_weights();
  void add_weight(const InputSpec& input);
  void add_size(const InputSpec& input);
  void add_outputs();
  void add_output(const OutputSpec& output, Builder& builder);
  Value* output_value(const OutputSpec& output, Builder& builder);

  // ---- what changes (mutations.cpp)
  void add_mutations();
  void add_mutation(const InputSpec& input, Value* value, Builder& builder);
  const InputSpec& mutated_input(const OutputSpec& output) const;

  // ---- nodes (importer.cpp)
  /// Notes operators that are missing; false when there was one.
  bool check_ops(const ProgramGraph& graph, std::set<const ProgramGraph*>& seen);
  void report_missing_ops();
  void import_nodes(const ProgramGraph& graph);
  void import_node(const ProgramGraph& graph, const ProgramNode& node);
  void import_graph_op(const ProgramGraph& graph, const ProgramNode& node);
  void import_number(const ProgramGraph& graph, const ProgramNode& node);
  void set_number(const ProgramGraph& graph, const ProgramNode& node, const Number& number);
  void take_results(const ProgramGraph& graph, const ProgramNode& node, Call& call, int first_new);
  void check_declared(const ProgramGraph& graph, const std::string& name, const Value* value) const;
  void inline_graph(const ProgramGraph& graph, const ProgramNode& node, size_t first_operand);
  static std::optional<Slot> output_of_call(const Argument& output, const Scope<Slot>& inner);
  Scope<Slot> scope_of_call(const ProgramGraph& graph, const ProgramNode& node, size_t first_operand) const;
  bool reads_faulty(const ProgramNode& node) const;

  // ---- control flow (control.cpp)
  struct Iterated;
  int64_t num_unrolled_nodes_ = 0;  ///< what loops within each other have made
  /// Whether the node is control flow that is lowered; it has been imported then.
  bool import_control_flow(const ProgramNode& node);
  void import_cond(const ProgramNode& node);
  void import_map(const ProgramNode& node);
  void import_scan(const ProgramNode& node);
  void import_associative_scan(const ProgramNode& node);
  void import_while(const ProgramNode& node);
  void run_steps(const ProgramNode& node, const ProgramGraph& graph, std::vector<Slot> state, size_t over,
                 const std::vector<Slot>& operands);
  std::vector<Slot> run_graph(const ProgramGraph& graph, const std::vector<Slot>& operands);
  std::vector<Slot> slots_of(const Argument& argument) const;
  std::vector<Slot> gated(const std::vector<Slot>& operands, Value* predicate, bool taken);
  void check_can_be_thrown_away(size_t first_new);
  static Value* tensor_of(const Slot& slot, Builder& builder);
  static Slot next_state(const Slot& before, const Slot& after, Builder& builder);
  Iterated iterated(const ProgramNode& node, size_t argument, Builder& builder);
  void set_results(const ProgramNode& node, const std::vector<Slot>& slots);
  std::optional<bool> known_condition(const Argument& argument);
  std::optional<bool> known_condition(const Slot& slot);

  Scope<Slot>& scope() { return scopes_.back(); }
  const Scope<Slot>& scope() const { return scopes_.back(); }
  std::string where(const ProgramNode& node) const;
  std::string snippet(const ProgramNode& node);
  Builder builder_at(const std::string& node);

  const Program& program_;
  WeightSource weights_;
  const ImportOptions& options_;
  Diagnostics& diagnostics_;
  Faults faults_;
  MissingOps missing_ops_;
  std::unique_ptr<Graph> graph_;
  RandomOps random_ops_;
  ShapeArithmetic shape_arithmetic_;
  std::vector<Scope<Slot>> scopes_;  ///< of the graphs being inlined; a graph sees its own names only
  std::map<std::string, int64_t> symbols_;
  std::vector<std::string> graph_inputs_;  ///< names in the program of the graph's inputs, in order
  UniqueNames output_names_;
  struct OnEntry {
    Value* value = nullptr;
    bool is_weight = false;  ///< a parameter, buffer or constant that has bytes; else an input of the graph, or what it was bound to
  };
  struct ElementGuard {
    std::string text;
    Value* differs = nullptr;  ///< i32[]: 0, or 1 where the guard fails
  };
  std::vector<ElementGuard> element_guards_;
  std::unordered_map<std::string, OnEntry> on_entry_;  ///< what each input of the program is before it runs, by its name there
};

/// Handler of "aten.add.Tensor"; for the in-place form "aten.add_.Tensor" that of the functional one. nullptr when it is unknown.
struct HandlerMatch {
  const Handler* handler = nullptr;
  const Signature* signature = nullptr;
  bool in_place = false;  ///< the result is to be written to the first argument
};
HandlerMatch find_handler(const std::string& op);

}  // namespace tcc::fx
