#include "frontend/fx/norms.h"

namespace tcc::fx {

Type channels_of(Call& call) {
  const Value* x = call.in("input");
  if (x->type.rank() < 2) Call::refuse("type-error", "the norm of " + to_string(x->type) + ", [batch, channels, ...] was expected");
  return Type(call.has("weight") ? call.in("weight")->type.dtype : x->type.dtype, {x->type.dims[1].bound});
}

std::vector<int64_t> mask_of(Call& call, size_t count) {
  std::vector<int64_t> mask = call.integers("output_mask");
  if (mask.size() != count) Call::refuse("malformed-file", "`output_mask` has " + std::to_string(mask.size()) + " elements");
  if (!call.has("weight")) mask[1] = 0;
  return mask;
}

}  // namespace tcc::fx
