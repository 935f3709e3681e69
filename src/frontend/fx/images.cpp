#include "frontend/fx/images.h"

namespace tcc::fx {

Image with_batch(Call& call, std::string_view name, size_t spatial) {
  Value* x = call.in(name);
  const auto rank = static_cast<size_t>(x->type.rank());
  if (rank == spatial + 2) return {x, false};
  if (rank != spatial + 1) Call::refuse("type-error", "an image was expected, found is " + to_string(x->type));
  Shape shape = shape_of(x);
  shape.insert(shape.begin(), 1);
  return {call.build().reshape(x, shape), true};
}

Value* without_batch(Call& call, Value* y, bool added) {
  if (!added) return y;
  Shape shape = shape_of(y);
  shape.erase(shape.begin());
  return call.build().reshape(y, shape);
}

std::vector<int64_t> both_sides(const std::vector<int64_t>& padding) {
  std::vector<int64_t> pads = padding;
  pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}

}  // namespace tcc::fx
