// How reductions, scans, windows and scatters join values, in every IR: the names, the pointwise op and the value that changes nothing, in one place.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tcc/ops/op.h"
#include "tcc/support/dtype.h"

namespace tcc {

/// `assign`, the value itself, is of scatters alone.
enum class Combiner : uint8_t { sum, prod, max, min, and_, or_, assign };

std::string_view name_of(Combiner combiner);          ///< sum prod max min and or; in reductions, scans and windows
std::string_view scatter_name_of(Combiner combiner);  ///< add mul max min assign; in scatters
std::optional<Combiner> combiner_named(std::string_view name);
std::optional<Combiner> scatter_combiner_named(std::string_view name);

Combiner combiner_of(Op reduction);  ///< reduce_sum_ -> sum, and so on
Op pointwise_of(Combiner combiner);  ///< sum -> add_, and so on: joins two values. Of `assign`: identity_

/// The value that changes nothing: 0, 1, an infinity, the lowest or highest integer, all bits. One of the two is meant, by the dtype.
struct Identity {
  double float_value = 0;
  int64_t int_value = 0;
};
Identity identity_of(Combiner combiner, DType dtype);

}  // namespace tcc
