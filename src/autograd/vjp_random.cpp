// vjp rules of random ops: the backward pass makes the mask again, from the seed.

#include "autograd/vjp.h"
#include "tcc/rules/random.h"

namespace tcc::autograd {

void vjp_dropout(Vjp& v) {
  const double ratio = v.attrs().get_float("ratio");
  Value* kept = rules::dropout_kept(v.b, v.x(1), v.x()->type.shape(), ratio, v.attrs().get_int("stream"));
  v.give(0, rules::drop(v.b, v.g, kept, ratio));
}

}  // namespace tcc::autograd
