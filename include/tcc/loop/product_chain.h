// Products of matrices whose results, as they are or with others, make a factor of a further product, and are used for nothing else: the gradients of attention.
//
//   map %i in 1024, %d in 64 {
//     %o: f32 = reduce sum %j in 1024 {
//       %s: f32 = reduce sum %k in 64 { q[i, k] * k[j, k] }                         // products, at the row %i and the column %j
//       %t: f32 = reduce sum %l in 64 { g[i, l] * v[j, l] }
//       yield w(%s, %t, m[i]) * x[j, d]
//     }
//     store %o, %r[%i, %d]
//   }
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tcc/loop/loop.h"

namespace tcc::loop {

struct ProductChain {
  struct Product {
    ScalarRef score;            ///< its result, in weights
    VarRef k;                   ///< what it sums over
    ExprPtr of_row, of_column;  ///< loads: at row and k, at column and k
  };
  /// A sum along the column; there may be several, of the same products.
  struct Result {
    ExprPtr weight;    ///< f32, of the scores, the row and the column; what a mask of places makes zero is left out
    ExprPtr value;     ///< load: at column and result
    ScalarRef output;  ///< the sum
  };
  std::vector<Dim> dims;  ///< of the nest; those that are not `row` or `result` are a batch
  VarRef row, column, result;
  std::vector<Product> products;
  std::vector<Result> results;
  std::optional<Index> distance;  ///< row - column or column - row, with a constant: where it is negative all weights are zero
  Block stores;                   ///< what is done with the sums
};

/// The nest as such a chain; nothing, with a reason, where it is none.
std::optional<ProductChain> as_product_chain(const Stmt& nest, std::string* why_not = nullptr);

/// Says of exponentials less the maximum of their row, which is read from one of `maxima`, that they are zero where a mask of places hides them.
void hide_masked(Block& block, const std::vector<BufferRef>& maxima);

}  // namespace tcc::loop
