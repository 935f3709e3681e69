// Walks a captured program and calls the handler of each node.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/fx/call.h"
#include "frontend/fx/signature.h"
#include "tcc/frontend/import.h"

namespace tcc::fx {

/// Tensors of parameters, buffers and constants, by dotted name. Nothing for a name that has none: it becomes an input of the graph.
using WeightSource = std::function<std::optional<Tensor>(const InputSpec& input, const TensorMeta& meta)>;

/// What a name of the program stands for.
struct Slot {
  std::shared_ptr<Alias> tensor;
  std::vector<std::shared_ptr<Alias>> list;  ///< never named by programs today, kept for results that are lists
  std::optional<Number> number;
  bool is_faulty = false;  ///< made by a node that had a fault: what reads it is passed over
};

class Importer {
 public:
  Importer(const Program& program, std::string file, WeightSource weights, const ImportOptions& options, Diagnostics& diagnostics);
  std::unique_ptr<Graph> run();

  // For Call.
  const Slot* find(const std::string& name) const;
  std::optional<int64_t> evaluate(const SizeExpr& expr) const { return fx::evaluate(expr, symbols_); }
  Value* seed();
  int64_t count_random_op() { return num_random_ops_++; }

 private:
  using Scope = std::unordered_map<std::string, Slot>;

  void check_ops(const ProgramGraph& graph);
  void add_inputs();
  void bind_inputs();
  void learn_symbols(const InputSpec& input, const Type& type);
  void check_ranges();
  void add_weights();
  void add_outputs();
  void add_output(const OutputSpec& output, Builder& builder);
  void refuse_mutations();
  void import_nodes(const ProgramGraph& graph);
  void import_node(const ProgramGraph& graph, const ProgramNode& node);
  void inline_graph(const ProgramGraph& graph, const ProgramNode& node, size_t first_operand);
  void take_results(const ProgramGraph& graph, const ProgramNode& node, Call& call, int first_new);
  void check_declared(const ProgramGraph& graph, const std::string& name, const Value* value) const;
  bool reads_faulty(const ProgramNode& node) const;
  std::string where(const ProgramNode& node) const;
  std::string snippet(const ProgramNode& node);
  void report(const RuleError& error, const std::string& where, const std::string& snippet);
  Builder builder_at(const std::string& node);

  const Program& program_;
  std::string file_;
  WeightSource weights_;
  const ImportOptions& options_;
  Diagnostics& diagnostics_;
  std::unique_ptr<Graph> graph_;
  std::vector<Scope> scopes_;  ///< of the graphs being inlined; a graph sees its own names only
  std::map<std::string, int64_t> symbols_;
  std::vector<std::string> graph_inputs_;                             ///< names in the program of the graph's inputs, in order
  std::vector<std::pair<std::string, std::shared_ptr<Alias>>> kept_;  ///< inputs and buffers, which a program must not change
  int64_t num_random_ops_ = 0;
};

/// Handler of "aten.add.Tensor"; for the in-place form "aten.add_.Tensor" that of the functional one. nullptr when it is unknown.
struct HandlerMatch {
  const Handler* handler = nullptr;
  const Signature* signature = nullptr;
  bool in_place = false;  ///< the result is to be written to the first argument
};
HandlerMatch find_handler(const std::string& op);

}  // namespace tcc::fx
