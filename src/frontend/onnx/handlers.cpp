// Finds the handler of an op among the tables of the families.
#include "frontend/onnx/handlers.h"

#include <map>

#include "tcc/frontend/import.h"
#include "tcc/support/diagnostics.h"

namespace tcc::onnx {

namespace {

using Table = std::map<std::pair<std::string_view, std::string_view>, const Handler*>;

const Table& table() {
  static const Table table = [] {
    Table all;
    for (const auto family :
         {activation_handlers(), attention_handlers(),   constant_handlers(), contraction_handlers(), contrib_handlers(),
          control_handlers(),    convolution_handlers(), index_handlers(),    loss_handlers(),        norm_handlers(),
          optional_handlers(),   pointwise_handlers(),   pool_handlers(),     quantize_handlers(),    quantized_contrib_handlers(),
          random_handlers(),     recurrent_handlers(),   reduce_handlers(),   resize_handlers(),      scan_handlers(),
          sequence_handlers(),   shape_handlers(),       stateful_handlers(), structure_handlers(),   training_handlers(),
          window_handlers()}) {
      for (const Handler& handler : family) {
        if (!all.emplace(std::pair(handler.domain, handler.op), &handler).second)
          internal_error("two handlers for " + std::string(handler.op));
      }
    }
    return all;
  }();
  return table;
}

}  // namespace

const Handler* find_handler(std::string_view domain, std::string_view op) {
  const auto found = table().find({domain, op});
  return found == table().end() ? nullptr : found->second;
}

std::vector<const Handler*> all_handlers() {
  std::vector<const Handler*> all;
  for (const auto& [name, handler] : table()) all.push_back(handler);
  return all;
}

}  // namespace tcc::onnx

namespace tcc {

std::vector<KnownOp> known_ops() {
  std::vector<KnownOp> ops;
  for (const onnx::Handler* handler : onnx::all_handlers()) ops.push_back({std::string(handler->domain), std::string(handler->op)});
  return ops;
}

}  // namespace tcc
