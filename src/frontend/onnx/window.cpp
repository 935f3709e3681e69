// Window functions over 0 <= n < size, in one formula: a - b cos(2 pi n / N) + c cos(4 pi n / N), N the size or, unless periodic, one less.
#include <array>
#include <numbers>

#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

void import_window(NodeContext& node, double a, double b, double c) {
  const DType dtype = node.dtype_attribute("output_datatype", DType::f32);
  const bool periodic = node.flag("periodic", true);
  Arithmetic m(node);
  Value* size = node.in(0);
  Value* period = m.cast(size, DType::f32);
  if (!periodic) period = m.sub(period, m.number(DType::f32, 1));
  Value* angle = m.div(m.scale(2 * std::numbers::pi, m.cast(m.count_to(size), DType::f32)), period);
  Value* window = m.sub(m.number(DType::f32, a), m.scale(b, node.emit(Op::cos_, {angle})));
  if (c != 0) window = m.add(window, m.scale(c, node.emit(Op::cos_, {m.scale(2, angle)})));
  if (dtype == DType::f32) node.set(0, window);
  else node.result(Op::cast_, {window}, {{"dtype", dtype}});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "BlackmanWindow", [](NodeContext& node) { import_window(node, 0.42, 0.5, 0.08); }},
    {"", "HammingWindow", [](NodeContext& node) { import_window(node, 25.0 / 46, 21.0 / 46, 0); }},
    {"", "HannWindow", [](NodeContext& node) { import_window(node, 0.5, 0.5, 0); }},
});

}  // namespace

std::span<const Handler> window_handlers() { return kHandlers; }

}  // namespace tcc::onnx
