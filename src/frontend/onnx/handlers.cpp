// Finds the handler of an op among the tables of the families.
#include "frontend/onnx/handlers.h"

#include <map>

#include "tcc/support/diagnostics.h"

namespace tcc::onnx {

const Handler* find_handler(std::string_view domain, std::string_view op) {
  static const auto table = [] {
    std::map<std::pair<std::string_view, std::string_view>, const Handler*> all;
    for (const auto family :
         {activation_handlers(), attention_handlers(),   constant_handlers(), contraction_handlers(), contrib_handlers(),
          control_handlers(),    convolution_handlers(), index_handlers(),    loss_handlers(),        norm_handlers(),
          pointwise_handlers(),  pool_handlers(),        quantize_handlers(), random_handlers(),      reduce_handlers(),
          resize_handlers(),     sequence_handlers(),    shape_handlers(),    structure_handlers(),   training_handlers(),
          window_handlers()}) {
      for (const Handler& handler : family) {
        if (!all.emplace(std::pair(handler.domain, handler.op), &handler).second)
          internal_error("two handlers for " + std::string(handler.op));
      }
    }
    return all;
  }();
  const auto found = table.find({domain, op});
  return found == table.end() ? nullptr : found->second;
}

}  // namespace tcc::onnx
