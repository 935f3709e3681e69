#include "frontend/fx/handlers.h"

#include <array>
#include <deque>
#include <unordered_map>

#include "frontend/fx/importer.h"
#include "frontend/fx/signature.h"

namespace tcc::fx {

namespace {

struct Row {
  const Handler* handler;
  Signature signature;
};

const std::unordered_map<std::string, Row>& rows() {
  static const std::unordered_map<std::string, Row> table = [] {
    std::unordered_map<std::string, Row> result;
    for (const auto family :
         {activation_handlers(),  attention_handlers(), backward_handlers(),  batch_norm_handlers(), composed_handlers(),
          contraction_handlers(), creation_handlers(),  function_handlers(),  image_handlers(),      index_handlers(),
          loss_handlers(),        norm_handlers(),      pointwise_handlers(), pool_handlers(),       prims_handlers(),
          reduce_handlers(),      resize_handlers(),    rnn_handlers(),       structure_handlers(),  view_handlers()}) {
      for (const Handler& handler : family) {
        Signature signature = parse_signature(handler.signature);
        const std::string op = signature.op;
        check(result.emplace(op, Row{&handler, std::move(signature)}).second, "an operator is in two tables");
      }
    }
    return result;
  }();
  return table;
}

/// Names that the framework has for other operators, argument for argument.
std::string without_other_name(const std::string& name) {
  static const std::unordered_map<std::string, std::string> table = {
      {"absolute", "abs"},
      {"negative", "neg"},
      {"fix", "trunc"},
      {"positive", "alias"},
      {"arccos", "acos"},
      {"arcsin", "asin"},
      {"arctan", "atan"},
      {"arctan2", "atan2"},
      {"arccosh", "acosh"},
      {"arcsinh", "asinh"},
      {"arctanh", "atanh"},
      {"multiply", "mul"},
      {"subtract", "sub"},
      {"divide", "div"},
      {"true_divide", "div"},
      {"greater", "gt"},
      {"greater_equal", "ge"},
      {"less", "lt"},
      {"less_equal", "le"},
      {"not_equal", "ne"},
      {"clip", "clamp"},
      {"concat", "cat"},
      {"concatenate", "cat"},
      {"row_stack", "vstack"},
      {"moveaxis", "movedim"},
      {"ravel", "flatten"},
      {"special_expit", "sigmoid"},
      {"special_erf", "erf"},
      {"special_erfc", "erfc"},
      {"special_exp2", "exp2"},
      {"special_expm1", "expm1"},
      {"special_log1p", "log1p"},
      {"special_round", "round"},
      {"special_sinc", "sinc"},
      {"special_log_softmax", "log_softmax"},
      {"special_softmax", "softmax"},
  };
  const size_t dot = name.find('.');
  if (dot == std::string::npos || dot == 0) return name;
  const bool in_place = name[dot - 1] == '_';
  const auto found = table.find(name.substr(0, dot - (in_place ? 1 : 0)));
  if (found == table.end()) return name;
  const std::string overload = name.substr(dot);
  // `ravel` says nothing of axes, `flatten` has defaults for them in its one overload.
  return found->second + (in_place ? "_" : "") + (found->second == "flatten" ? ".using_ints" : overload);
}

}  // namespace

HandlerMatch find_handler(const std::string& op) {
  // Rows of ATen have its operators' names alone.
  if (!op.starts_with("aten.") && !op.starts_with("prims.")) return {};
  const std::string name = op.starts_with("aten.") ? without_other_name(op.substr(5)) : op;
  if (const auto found = rows().find(name); found != rows().end()) return {found->second.handler, &found->second.signature, false};
  // `add_.Tensor` is `add.Tensor`, written to its first argument; `__and__.Tensor` is a name of its own.
  const size_t dot = name.find('.');
  if (dot == std::string::npos || dot < 2 || name[dot - 1] != '_' || name[dot - 2] == '_') return {};
  const auto found = rows().find(name.substr(0, dot - 1) + name.substr(dot));
  return found == rows().end() ? HandlerMatch() : HandlerMatch{found->second.handler, &found->second.signature, true};
}

}  // namespace tcc::fx
