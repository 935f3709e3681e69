// What a nest is, recognised once before a strategy is chosen for it.
#pragma once

#include <optional>
#include <string>

#include "schedule/contraction.h"

namespace tcc::schedule {

/// As far as schedules differ.
enum class NestKind : uint8_t {
  pointwise,        ///< no reduce, scan or loop inside the map
  reduction,        ///< reduces for each element of the map
  dot_product,      ///< a sum of products, each factor of which belongs to one result alone: no more to gain than in a reduction
  contraction,      ///< a sum of products whose factors belong to several results
  computed_factor,  ///< the same of a factor that is computed as it is read: dequantised weights
  rows,             ///< loops and reduces inside the map
  scan,             ///< scans
};
std::string_view name_of(NestKind kind);

struct Nest {
  std::string first;  ///< the name of its first dim, by which it is found
  NestKind kind = NestKind::pointwise;

  // Of a sum of products: what it is, or why it is not that.
  std::optional<Contraction> contraction;
  std::optional<Matmul> matmul;
  std::optional<Convolution> convolution;
  std::string not_contraction, not_matmul, not_convolution;
};

/// The nest that the statement, a map with dims, is.
Nest recognise(const loop::Stmt& stmt);

}  // namespace tcc::schedule
