// What the ops mean, in words: docs/ops.md is made of it.
#pragma once

#include <string_view>

#include "tcc/ops/op.h"

namespace tcc {

struct OpDoc {
  std::string_view operands;  ///< their names, in order: "x, axes?", "x..."
  std::string_view meaning;   ///< Markdown: a formula or a sentence
  std::string_view example;   ///< a line of graph text with the types of the operands in it; empty: f32[4] throughout
};
const OpDoc& doc(Op op);

}  // namespace tcc
