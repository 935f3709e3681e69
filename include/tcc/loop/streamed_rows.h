// Rows that are made by one product of matrices, normalised by their maximum and sum of exponentials, and used up by another product: attention.
//
//   map %i in 1024 {
//     %m: f32 = reduce max %j in 1024 { %s: f32 = reduce sum %k in 64 { q[i, k] * k[j, k] };  yield x(%s) }
//     %l: f32 = reduce sum %j1 in 1024 { %s1: f32 = reduce sum ...;  yield exp(sub(x(%s1), %m)) }
//     store %m, %r1[%i]                                                          // and others of a row, or none
//     map %d in 64 {
//       %o: f32 = reduce sum %j2 in 1024 { %s2: f32 = reduce sum ...;  yield exp(sub(x(%s2), %m)) / %l * v[j2, d] }
//       store %o, %r[%i, %d]
//     } }
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tcc/loop/loop.h"

namespace tcc::loop {

struct StreamedRows {
  std::vector<Dim> dims;            ///< of the nest
  VarRef row;                       ///< the one that rows of the first product are numbered by; the others are a batch
  VarRef column;                    ///< along a row: the rows of `key` and of `value`
  VarRef first_k;                   ///< summed by the first product
  VarRef result;                    ///< columns of the second product
  ExprPtr query, key;               ///< loads: at row and first_k, at column and first_k
  ExprPtr value;                    ///< load: at column and result
  ScalarRef score;                  ///< a result of the first product, in `element`
  ExprPtr element;                  ///< of a row, a number of f32
  std::optional<int64_t> diagonal;  ///< columns up to row + so many have that element, those behind -inf; at least 0
  ScalarRef maximum, sum;
  /// What is done with exp(element - maximum) before the second product, none of which depends on the column: it is done to the results.
  struct Scale {
    Op op;           ///< mul or div
    ExprPtr factor;  ///< of `maximum`, `sum` and the row
  };
  std::vector<Scale> scales;
  bool zero_for_nan = false;  ///< rows that are NaN count as zeros
  ScalarRef output;           ///< a result of the second product
  Block stores;               ///< what is done with it
  Block row_stores;           ///< of `maximum`, `sum` and the row, one for each row
};

/// The nest as such rows; nothing, with a reason, where it is not.
std::optional<StreamedRows> as_streamed_rows(const Stmt& nest, std::string* why_not = nullptr);

}  // namespace tcc::loop
