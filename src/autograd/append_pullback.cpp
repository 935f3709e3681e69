// The joint graph is made as for a model; its forward outputs are dropped, and what is left is copied to where the gradients are wanted.
#include <algorithm>
#include <unordered_map>

#include "tcc/autograd/autograd.h"
#include "tcc/autograd/pullback.h"
#include "tcc/graph/rule_error.h"
#include "tcc/passes/passes.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

std::unique_ptr<Graph> joint_of(const Graph& forward, const Pullback& pullback) {
  GradOptions options;
  options.wrt = pullback.wrt;
  options.saved = pullback.saved;
  Diagnostics diagnostics;
  try {
    return build_joint(forward, options, diagnostics);
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal) throw;
    const Diagnostic& first = error.diagnostics().front();
    throw RuleError{"unsupported-gradient", first.message + (first.where.empty() ? "" : ", in `" + first.where + "`")};
  }
}

/// Drops the outputs of the forward pass, which come first.
void keep_gradients(Graph& joint, size_t num_outputs) {
  joint.body.results.erase(joint.body.results.begin(), joint.body.results.begin() + static_cast<std::ptrdiff_t>(num_outputs));
  joint.output_names.erase(joint.output_names.begin(), joint.output_names.begin() + static_cast<std::ptrdiff_t>(num_outputs));
  eliminate_dead_code(joint);
}

/// Copies the nodes of a joint graph to where a builder appends.
class Copier {
 public:
  Copier(Builder& b, const Graph& joint, const Pullback& pullback) : b_(b) {
    for (size_t i = 0; i < joint.body.args.size(); ++i) {
      const size_t cotangent = i - std::min(i, pullback.inputs.size());
      outside_[joint.body.args[i]] = i < pullback.inputs.size() ? pullback.inputs[i] : pullback.cotangents.at(cotangent);
    }
    for (const Node* node : joint.body.nodes) {
      std::vector<Value*> operands;
      for (Value* operand : node->operands) operands.push_back(find(operand));
      b_.set_loc(pullback.loc ? *pullback.loc : node->loc);
      const Node* made = b_.emit_node(node->op, std::move(operands), node->attrs, static_cast<int>(node->results.size()));
      for (size_t i = 0; i < node->results.size(); ++i) outside_[node->results[i]] = made->results[i];
    }
  }

  Value* find(Value* value) {
    if (value == nullptr) return nullptr;
    const auto found = outside_.find(value);
    if (found == outside_.end()) return outside_[value] = b_.constant(value->weight->tensor);  // one that a rule made
    if (found->second == nullptr) internal_error("a vjp rule reads `" + value->name + "`, which a backward pass has not saved");
    return found->second;
  }

 private:
  Builder& b_;
  std::unordered_map<const Value*, Value*> outside_;
};

}  // namespace

std::vector<Value*> append_pullback(Builder& b, const Graph& forward, const Pullback& pullback) {
  const std::unique_ptr<Graph> joint = joint_of(forward, pullback);
  keep_gradients(*joint, forward.output_names.size());
  const Location before = b.loc();
  Copier copier(b, *joint, pullback);
  b.set_loc(before);
  std::vector<Value*> gradients;
  for (const std::string& name : pullback.wrt) {
    const auto found = std::find(joint->output_names.begin(), joint->output_names.end(), "grad." + name);
    check(found != joint->output_names.end(), "a joint graph lacks a gradient that was asked for");
    gradients.push_back(copier.find(joint->body.results[static_cast<size_t>(found - joint->output_names.begin())]));
  }
  return gradients;
}

}  // namespace tcc
