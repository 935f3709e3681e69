// A captured program of torch operators, as it is whatever file it came from: torch.export's JSON, an archive of it, or tcc.fx.
//
//   graph(p_fc_weight, x) {                      inputs; the signature says which are parameters
//     %t = aten.linear.default(input=%x, weight=%p_fc_weight)
//     %y = aten.relu.default(self=%t)
//   } -> (y)
//
// Readers (read_program.cpp) make it, the importer (importer.cpp) walks it. Nothing of a file's format is left in it but the producer's version.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "frontend/fx/infix.h"
#include "frontend/fx/size_expr.h"
#include "tcc/support/dtype.h"
#include "tcc/support/tensor.h"

namespace tcc::fx {

struct ProgramGraph;
struct Argument;

/// A value by name: a tensor, or a number that a node computed (a size).
struct ValueName {
  std::string name;
};
/// What only matters to a machine or a framework: devices, layouts of strides, memory formats.
struct Setting {
  std::string kind;  ///< "device", "layout", "memory_format"
  std::string text;
};
/// A dtype that tcc has no element type for, by the name that torch has for it.
struct UnknownDType {
  std::string name;
};
using GraphRef = std::shared_ptr<const ProgramGraph>;

/// One argument. monostate is None.
struct Argument {
  std::variant<std::monostate, bool, int64_t, double, std::string, DType, UnknownDType, ValueName, SizeExpr, Setting, GraphRef,
               std::vector<Argument>>
      value;
  bool is_none() const { return std::holds_alternative<std::monostate>(value); }
  template <class T> const T* as() const { return std::get_if<T>(&value); }
};

struct NamedArgument {
  std::string name;  ///< empty: by position
  Argument argument;
};

/// A result: one name, or the names of a list's elements. An empty name is a result that nothing reads.
struct Result {
  bool is_list = false;
  std::vector<std::string> names;
};

struct ProgramNode {
  std::string name;
  std::string op;  ///< "aten.add.Tensor", "hop.cond", "sym.mul"
  std::vector<NamedArgument> arguments;
  std::vector<Result> results;
  std::string module;  ///< dotted path of the module that called it, "" when unknown
  /// Where tcc had it from that wrote the node (--emit=fx).
  struct Origin {
    std::string node, file, phase;
  } origin;
};

/// Type of a tensor as the file declares it.
struct TensorMeta {
  std::optional<DType> dtype;  ///< nothing: not one of tcc's; dtype_name says what
  std::string dtype_name;
  bool is_ranked = true;
  std::vector<SizeExpr> sizes;
  std::optional<std::vector<SizeExpr>> strides;  ///< in elements; nothing: not said. Read by operators that name positions in memory alone
  SizeExpr storage_offset;
};

struct ProgramGraph {
  std::vector<std::string> inputs;
  std::vector<ProgramNode> nodes;
  std::vector<Argument> outputs;
  std::map<std::string, TensorMeta> tensors;
  std::map<std::string, SizeExpr> sizes;  ///< named numbers that the file gives as expressions of symbols
};

struct InputSpec {
  enum class Kind { user, parameter, buffer, constant, seed };
  Kind kind = Kind::user;
  std::string name;              ///< of the graph's input
  std::string target;            ///< dotted name of the parameter, buffer or constant
  Argument fixed;                ///< of a user input that is no tensor: the value that the program was captured with
  std::optional<SizeExpr> size;  ///< of a user input that is a size: known when sizes are bound
  bool is_tensor = true;
};

struct OutputSpec {
  enum class Kind { user, loss, buffer_mutation, input_mutation, gradient_of_parameter, gradient_of_input };
  Kind kind = Kind::user;
  Argument value;
  std::string target;  ///< what is changed, or differentiated by
  std::string name;    ///< in the library; empty: that of the value
};

/// A condition under which a program was captured.
struct Guard {
  enum class Kind { tensor, expr, input_value, setting, opaque };
  Kind kind = Kind::opaque;
  std::string subject;  ///< tensor, input_value: the input's name; setting: what the caller states, "state:grad_enabled"
  std::string text;     ///< "input `x` is f32 of rank 2"
  std::optional<DType> dtype;
  int64_t rank = 0;
  std::vector<std::optional<SizeExpr>> sizes;  ///< tensor: empty, or one per axis; nothing is any
  Condition condition;                         ///< expr
  Argument value;                              ///< input_value, setting: a number or boolean
};

struct SymbolRange {
  std::optional<int64_t> low, high;
};

struct Program {
  std::string name = "model";
  std::string producer;  ///< "torch 2.11.0"
  ProgramGraph graph;
  std::vector<InputSpec> inputs;    ///< in the order of graph.inputs
  std::vector<OutputSpec> outputs;  ///< in the order of graph.outputs
  std::map<std::string, SymbolRange> symbols;
  std::map<std::string, int64_t> hints;  ///< of symbols, at capture
  std::vector<Guard> guards;
};

}  // namespace tcc::fx
