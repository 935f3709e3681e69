// Optional values fold away while importing: each is there, and then it is its value, or it is not. An input of the model that is optional is there.
#include <array>

#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

void import_optional(NodeContext& node) {
  node.ignore("type");  // of a value that isn't there: nothing reads it
  node.set(0, node.has(0) ? node.tensor_or_sequence(0) : node.nothing());
}

void import_get_element(NodeContext& node) {
  if (node.is_nothing(0)) node.refuse("type-error", "the optional is empty, an element was expected");
  node.set(0, node.tensor_or_sequence(0));
}

void import_has_element(NodeContext& node) {
  const bool has = node.has(0) && !node.is_nothing(0);
  node.set(0, node.build().full_int(DType::boolean, {}, has ? 1 : 0));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "Optional", import_optional},
    {"", "OptionalGetElement", import_get_element},
    {"", "OptionalHasElement", import_has_element},
});

}  // namespace

std::span<const Handler> optional_handlers() { return kHandlers; }

}  // namespace tcc::onnx
