#include "tcc/ops/op_docs.h"

#include <iterator>

namespace tcc {
namespace {

struct Row {
  Op op;
  OpDoc doc;
};
constexpr Row kRows[] = {
#define TCC_DOC(name, operands, meaning, example) {Op::name##_, {operands, meaning, example}},
#include "ops/op_docs.def"
};

constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<size_t>(kRows[i].op) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the rows of op_docs.def are not in the order of ops.def");

constexpr size_t kNumOps = 0
#define TCC_POINTWISE(...) +1
#define TCC_PRIM(...) +1
#define TCC_COMPOSITE(...) +1
#define TCC_DYNAMIC(...) +1
#include "tcc/ops/ops.def"
    ;
static_assert(std::size(kRows) == kNumOps, "op_docs.def has not a row for each op of ops.def");

}  // namespace

const OpDoc& doc(Op op) { return kRows[static_cast<size_t>(op)].doc; }

}  // namespace tcc
