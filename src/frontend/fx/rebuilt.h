// Backward operators. Each is the rule of src/autograd for the operator that it is the backward pass of, which is rebuilt from what was saved:
//
//   gelu_backward(grad_output, self, approximate='tanh')
//     is the gradient for `self` of   gelu(self, approximate='tanh')   where its result has the cotangent `grad_output`
//   _softmax_backward_data(grad_output, output, dim, input_dtype)
//     is that for `self` of   _softmax(self, dim, half_to_float)   where rules read `output` for the result; no value stands for `self`
//
// Of the operator rebuilt only what the rule reads gets into the graph.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/fx/call.h"

namespace tcc::fx {

/// The gradient of one result.
struct Cotangent {
  size_t result;
  Value* value;
};

class Rebuilt {
 public:
  /// `op` is a row of the tables, "gelu.default". Arguments that both operators have by one name are passed on.
  Rebuilt(Call& call, std::string_view op);

  // ---- arguments that differ
  void set(std::string_view name, Argument value);
  void set(std::string_view name, Value* tensor);
  void set_unread(std::string_view name, Type type);  ///< of this type, and with a value that no rule may read

  /// Rules read `value` where they read that result.
  void save(size_t result, Value* value);

  /// For each of the arguments in turn, tensors all.
  std::vector<Value*> gradients(const std::vector<Cotangent>& cotangents, const std::vector<std::string>& of);
  /// The same for those that the mask asks for, null for the others.
  std::vector<Value*> gradients(const std::vector<Cotangent>& cotangents, const std::vector<std::string>& of,
                                const std::vector<int64_t>& mask);

 private:
  struct Operand {
    Type type;
    Value* value;  ///< null: unread
  };
  Argument passed(const Argument& argument, const std::string& name);

  Call& call_;
  ProgramNode node_;
  std::map<std::string, Operand> tensors_;  ///< by the names that arguments refer to them with
  std::vector<Cotangent> saved_;
};

/// A text as a template argument.
template <size_t size> struct Text {
  constexpr Text(const char (&text)[size]) { std::copy_n(text, size, value); }  // NOLINT: a text is one
  char value[size];
};

/// Result 0 of `op` has the cotangent `grad_output`; the gradients of the arguments are the results.
template <Text op, Text... of> void import_backward(Call& call) {
  Rebuilt forward(call, op.value);
  call.results(forward.gradients({{0, call.in("grad_output")}}, {of.value...}));
}

}  // namespace tcc::fx
