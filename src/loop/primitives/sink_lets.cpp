// sink_lets(s): lets that stand before a reduce and that only its terms read stand in it.
//
//   map %i in 64 { %z: i32 = load %b[%i];  %s: f32 = reduce sum %k in 512 { ... sub(cast<i32>(%x), %z) ... } ... }
// becomes
//   map %i in 64 { %s: f32 = reduce sum %k in 512 { %z: i32 = load %b[%i];  ... sub(cast<i32>(%x), %z) ... } ... }
//
// Lowering computes a value where all of its variables are known, once. Whoever tiles the sum, or copies one of its factors, wants each factor in one piece.
#include <algorithm>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

Unit sink_lets(const Unit& unit, const std::string& accumulator) {
  Unit result = unit;
  const Place place = find_definition(result.body, accumulator);
  auto* reduce = place ? std::get_if<Reduce>(&place.stmt().node) : nullptr;
  if (!reduce) no_such_reduce(unit, accumulator, "in a map");
  Block& around = *place.block;
  size_t at = place.index;
  for (size_t i = at; i-- > 0;) {
    const auto* let = std::get_if<Let>(&around[i].node);
    if (!let) continue;
    const Scalar* scalar = let->scalar.get();
    bool read_elsewhere = false;
    for (size_t other = 0; other < around.size(); ++other) {
      if (other == i) continue;
      if (other != at) {
        read_elsewhere = read_elsewhere || uses_scalar(Block{around[other]}, scalar);
        continue;
      }
      Reduce outside = *reduce;  // all but its terms
      outside.body.clear();
      outside.states[0].value = constant_int(DType::i32, 0);
      outside.dims.clear();
      read_elsewhere = read_elsewhere || uses_scalar(Block{Stmt{outside}}, scalar);
    }
    if (read_elsewhere) continue;
    reduce->body.insert(reduce->body.begin(), around[i]);
    around.erase(around.begin() + static_cast<std::ptrdiff_t>(i));
    at--;
    reduce = std::get_if<Reduce>(&around[at].node);
  }
  return result;
}

}  // namespace tcc::loop
