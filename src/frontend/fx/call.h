// What the importer of one torch operator sees: its arguments by name, and the graph to append to.
//
//   void import_softmax(Call& call) {
//     Value* x = call.to_dtype(call.in("self"), call.maybe_dtype("dtype"));
//     call.result(call.build().emit(Op::softmax_, {x}, {{"axis", call.axis("dim", x)}}));
//   }
//
// Types are static: sizes of the inputs are bound before the first node is imported. Faults are thrown as RuleError; the importer adds file
// and node.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/fx/aliases.h"
#include "frontend/fx/checked.h"
#include "frontend/fx/program.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/builder.h"

namespace tcc::fx {

using tcc::to_string;  // beside those of this folder

class Importer;
struct Handler;

/// A number that is known while importing.
using Number = std::variant<bool, int64_t, double>;

/// A tensor, or a number in the place of one.
struct Operand {
  Value* value = nullptr;
  Number number = false;
  bool is_tensor() const { return value != nullptr; }
};

inline size_t at(int64_t axis) { return static_cast<size_t>(axis); }

class Call {
 public:
  Call(Importer& importer, Builder& builder, const ProgramNode& node, const Handler& handler);

  Builder& build() { return builder_; }
  const std::string& op() const { return node_.op; }

  // ---- arguments, by the names of the signature. RuleError when one is missing or of another kind.
  bool has(std::string_view name) const { return !argument(name).is_none(); }
  Value* in(std::string_view name);                    ///< a tensor; a number as a tensor of rank 0
  Value* maybe(std::string_view name);                 ///< nullptr when None
  std::vector<Value*> tensors(std::string_view name);  ///< of a list; nullptr for None
  Operand operand(std::string_view name);
  int64_t integer(std::string_view name);
  std::optional<int64_t> maybe_integer(std::string_view name);
  double number(std::string_view name);
  std::optional<double> maybe_number(std::string_view name);
  Number scalar(std::string_view name);
  double number_at(std::string_view name, size_t i);  ///< of a list of numbers
  bool flag(std::string_view name);
  std::string text(std::string_view name);
  std::vector<int64_t> integers(std::string_view name);  ///< a single number is a list of one; None is empty
  std::optional<DType> maybe_dtype(std::string_view name);
  /// One of `count` numbers: a list of one (or a number) stands for all.
  std::vector<int64_t> per_axis(std::string_view name, size_t count);
  int64_t axis(std::string_view name, const Value* x) { return axis_of(integer(name), x->type.rank()); }
  std::vector<int64_t> axes(std::string_view name, const Value* x);  ///< from the front, each once; all when none is given
  /// From the front; RuleError when there is no such axis. Rank 0 counts as rank 1.
  static int64_t axis_of(int64_t axis, int64_t rank);

  // ---- results
  void result(Value* value) { results_.assign(1, {value}); }
  void results(const std::vector<Value*>& values);  ///< a tuple
  void result_list(const std::vector<Value*>& values) { results_.assign(1, values); }
  Value* result_at(size_t i) const { return results_.at(i).at(0); }  ///< what was set
  void keep_result(size_t i) { results_ = {results_.at(i)}; }        ///< of a tuple that was set, that one
  void result_number(Number number) { number_ = number; }
  /// The result is the tensor `name` seen otherwise; it shares its memory.
  void view(std::string_view name, ViewStep step);
  /// The i-th of a list of views.
  void views(std::string_view name, std::vector<ViewStep> steps);
  /// The result is that very tensor.
  void same(std::string_view name);
  /// Writes in place what a functional op would return, and returns the tensor.
  void write(std::string_view name, Value* value);
  /// Writes in place beside the results: a tensor that the operator changes. Gives the tensor.
  const std::shared_ptr<Alias>& update(std::string_view name, Value* value);
  /// A result that counts for nothing: zeros of the type that the program declares, of `otherwise` when it says nothing.
  Value* filler(size_t i, const Type& otherwise);
  /// In the float dtype that the program declares for result i: statistics of 16-bit floats are f32 on some devices.
  Value* as_declared(size_t i, Value* value);

  /// The framework declares other types than it computes; what was set counts.
  void ignore_declared() { ignores_declared_ = true; }

  // ---- values
  Value* emit(Op op, std::vector<Value*> operands, Attrs attrs = {}) { return builder_.emit(op, std::move(operands), std::move(attrs)); }
  Value* to_dtype(Value* x, std::optional<DType> dtype) { return dtype ? builder_.cast(x, *dtype) : x; }
  Value* constant(DType dtype, const Number& number, const Shape& shape = {});
  Value* seed();
  int64_t count_random_op();
  /// The type that the program declares for result i; nothing when it says nothing.
  std::optional<Type> declared(size_t i) const;
  /// Where the elements of a tensor lie in the framework's memory, in elements; nothing when the program doesn't say.
  struct Layout {
    std::vector<int64_t> strides;
    int64_t offset;
  };
  std::optional<Layout> layout(std::string_view name) const;
  [[noreturn]] static void refuse(std::string kind, std::string message) { throw RuleError{std::move(kind), std::move(message)}; }

 private:
  friend class Importer;
  friend class Rebuilt;
  const Argument& argument(std::string_view name) const;
  std::optional<Number> number_of(const Argument& argument) const;
  [[noreturn]] void wrong(std::string_view name, std::string_view expected) const;

  Importer& importer_;
  Builder& builder_;
  const ProgramNode& node_;
  const ProgramGraph* graph_ = nullptr;  ///< that the node is of; none for one that is rebuilt
  std::vector<std::pair<std::string_view, const Argument*>> arguments_;
  std::vector<std::vector<Value*>> results_;     ///< per result of the node, the elements of a list or one
  std::vector<std::shared_ptr<Alias>> aliases_;  ///< of a result (or of a list's elements) that shares memory
  std::optional<Number> number_;
  bool ignores_declared_ = false;
};

inline Shape shape_of(const Value* x) { return x->type.shape(); }

/// RuleError "type-error" when an operator has more results than anybody names, or a constant more elements than an importer should make.
void check_count(int64_t count, int64_t most, std::string_view what);

/// One row of a family's table.
struct Handler {
  std::string_view signature;
  void (*import)(Call& call);
};

}  // namespace tcc::fx
