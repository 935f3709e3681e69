// op_forms.json: for each version of each operator of ONNX a small model that has it (make_op_forms.py).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontend/onnx/proto.h"
#include "tcc/support/dtype.h"

namespace tcc::onnx_suite {

struct OpForm {
  std::string domain, op;
  int since = 0, last = 0;          ///< the versions of the domain that have this form
  std::vector<std::string> types;   ///< that ONNX allows for the operands that vary, as far as they have names here
  onnx::pb::GraphProto graph;       ///< without nodes: no model is known
  std::vector<std::string> varied;  ///< inputs and weights that all have one of the types
  std::vector<std::string> beside;  ///< inputs of another type variable, which the models give the same type
  std::string dtype;                ///< the one that they have

  /// The model in this version of the domain, with `type` for what varies, and for what stands beside it where `all` is; empty: as it is.
  std::string model(int version, const std::string& type = "", bool all = false) const;
};

/// All of them, by domain and operator, old versions first.
std::map<std::pair<std::string, std::string>, std::vector<OpForm>> read_op_forms(const std::string& path);

}  // namespace tcc::onnx_suite
