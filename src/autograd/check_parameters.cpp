// Signs that an export has changed the parameters it is asked to train.
//
// Exporters for inference make one tensor of equal ones (all zero biases of one size, which would then train as one), and fold transposes and batch
// norms into weights, under names of their own. What remains is trained all the same, with a warning:
//   merged    a bias or scale (rank 1) that nodes of different places read; matrices are shared on purpose (tied embeddings) and never equal by chance.
//             Slices read parts, as where an exporter puts the gates of a recurrent layer in another order, and the steps of a loop are one place
//   renamed   names that exporters make up: val_12, onnx::MatMul_34

#include "autograd/check_parameters.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace tcc::autograd {
namespace {

bool is_made_up(const std::string& name) {
  auto digits_from = [&](size_t at) {
    return at < name.size() &&
           std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (name.rfind("val_", 0) == 0) return digits_from(4);
  return name.rfind("onnx::", 0) == 0 && name.rfind('_') != std::string::npos && digits_from(name.rfind('_') + 1);
}

bool reads_part(const Node& node) { return node.op == Op::slice_ || node.op == Op::dynamic_slice_ || node.op == Op::dynamic_split_; }

/// The name of a node without the numbers of the steps around it: `loop[3]/add` is `loop/add`.
std::string place_of(const std::string& name) {
  std::string place;
  for (size_t i = 0; i < name.size(); ++i) {
    const size_t end = name[i] == '[' ? name.find("]/", i) : std::string::npos;
    const bool is_step = end != std::string::npos && end > i + 1 && name.find_first_not_of("0123456789", i + 1) == end;
    if (is_step) i = end;
    else place += name[i];
  }
  return place;
}

/// "`a`, `b`, `c` and 4 more"
std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 3; ++i) text += (i == 0 ? "`" : ", `") + names[i] + "`";
  return names.size() > 3 ? text + " and " + std::to_string(names.size() - 3) + " more" : text;
}

}  // namespace

void check_parameters(const Graph& forward, const std::vector<const Value*>& trained, Diagnostics& diagnostics) {
  std::map<const Value*, std::set<std::string>> readers;
  for (const Node* node : forward.body.nodes) {
    if (reads_part(*node)) continue;
    for (const Value* operand : node->operands) {
      if (operand != nullptr && operand->kind == Value::Kind::weight && operand->type.rank() == 1)
        readers[operand].insert(place_of(node->loc.node));
    }
  }
  std::vector<std::string> merged, renamed;
  for (const Value* weight : trained) {
    const auto found = readers.find(weight);
    if (found != readers.end() && found->second.size() > 1) merged.push_back(weight->name);
    if (is_made_up(weight->name)) renamed.push_back(weight->name);
  }
  if (!merged.empty()) {
    diagnostics.warning(
        "merged-parameters", forward.file,
        list_of(merged) + (merged.size() == 1 ? " is" : " are") +
            " read in several places: parameters that were equal when the model was exported are one now, and train as one");
  }
  if (!renamed.empty()) {
    diagnostics.warning("merged-parameters", forward.file,
                        list_of(renamed) + (renamed.size() == 1 ? " has no name" : " have no names") +
                            " of the model: the export has folded other tensors into parameters");
  }
  if (!merged.empty() || !renamed.empty()) {
    diagnostics.help(forward.file,
                     "export for training: torch.onnx.export(..., dynamo=True, optimize=False) keeps every parameter under its name");
  }
}

}  // namespace tcc::autograd
