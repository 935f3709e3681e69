// What recurrent ops of ONNX and of ONNX Runtime have in common.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx/context.h"

namespace tcc::onnx {

/// As `recurrent` has them.
struct Activations {
  std::string names;
  std::vector<double> alpha, beta;
};

struct RecurrentForm {
  std::string gates;  ///< in the order of their rows
  int64_t directions = 1;
  bool first_is_reverse = false;
  std::vector<Activations> activations;  ///< by direction
  std::optional<double> clip;
  bool reset_after = false, couple_forget = false;
  bool batch_first = false;
};
/// The attributes that all have; `activations` are the default of one direction.
RecurrentForm read_recurrent_form(NodeContext& node, const std::string& gates, const std::vector<std::string>& activations);

/// As ONNX has them: w [directions, gates * hidden, size], r [directions, gates * hidden, hidden], biases [directions, 2 * gates * hidden].
struct RecurrentOperands {
  Value *x, *w, *r, *biases;
  int lengths;  ///< the number of the operand
  Value *h, *c, *peepholes;
};
/// Makes the results of the node: all states, the last one, and of an LSTM the last cell state.
void import_recurrent(NodeContext& node, const RecurrentForm& form, RecurrentOperands operands);

}  // namespace tcc::onnx
