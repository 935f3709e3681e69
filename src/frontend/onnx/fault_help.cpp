#include "frontend/onnx/fault_help.h"

#include <cctype>
#include <set>
#include "tcc/graph/rule_error.h"

namespace tcc::onnx {

namespace {

/// Whether a message names two element types.
bool is_about_dtypes(const std::string& message) {
  std::set<DType> named;
  std::string word;
  for (const char c : message + " ") {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      word += c;
      continue;
    }
    if (const auto dtype = parse_dtype(word)) named.insert(*dtype);
    word.clear();
  }
  return named.size() > 1;
}

}  // namespace

std::string help_for(const RuleError& error) {
  const std::string& kind = error.kind;
  if (kind == "type-error" && is_about_dtypes(error.message))
    return "ONNX converts nothing by itself: add a Cast where the types differ, or export the model anew";
  if (kind == "unknown-value" && error.message.find("is a sequence, whose length") != std::string::npos)
    return "give the shape of each element, which is an input of its own then: --shapes=NAME.0:SIZES,NAME.1:SIZES";
  if (kind == "unsupported-dtype" && error.message.ends_with("elements of type string"))
    return "tensors are numbers here: let the program around the model do the steps that work on text";
  if (kind == "unknown-value") return "give the input behind it a value with --bind=NAME=VALUE, or export the model with it as a constant";
  const bool is_loop =
      error.message.find(" of this Loop ") != std::string::npos || error.message.find(" of this Scan ") != std::string::npos;
  if (kind == "unsupported-control-flow" && is_loop)
    return "fix the input with --bind=NAME=VALUE, or export the model with a constant number of steps";
  if (kind == "unsupported-control-flow")
    return "compute both sides and choose between them with torch.where, or fix the condition with --bind=NAME=VALUE";
  if (kind == "unsupported-attribute") return "export the model without the attribute, or with a value that the message names";
  if (kind == "cyclic-graph") return "no order of these nodes exists: export the model anew";
  return "";
}

}  // namespace tcc::onnx
