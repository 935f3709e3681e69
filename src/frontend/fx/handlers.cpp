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
         {activation_handlers(), attention_handlers(), backward_handlers(), batch_norm_handlers(), contraction_handlers(),
          creation_handlers(), image_handlers(), index_handlers(), loss_handlers(), norm_handlers(), pointwise_handlers(), pool_handlers(),
          prims_handlers(), reduce_handlers(), resize_handlers(), rnn_handlers(), structure_handlers(), view_handlers()}) {
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

}  // namespace

HandlerMatch find_handler(const std::string& op) {
  // Rows of ATen have its operators' names alone.
  if (!op.starts_with("aten.") && !op.starts_with("prims.")) return {};
  const std::string name = op.starts_with("aten.") ? op.substr(5) : op;
  if (const auto found = rows().find(name); found != rows().end()) return {found->second.handler, &found->second.signature, false};
  // `add_.Tensor` is `add.Tensor`, written to its first argument; `__and__.Tensor` is a name of its own.
  const size_t dot = name.find('.');
  if (dot == std::string::npos || dot < 2 || name[dot - 1] != '_' || name[dot - 2] == '_') return {};
  const auto found = rows().find(name.substr(0, dot - 1) + name.substr(dot));
  return found == rows().end() ? HandlerMatch() : HandlerMatch{found->second.handler, &found->second.signature, true};
}

}  // namespace tcc::fx
