// Reads of what is never written: a buffer that one masked loop fills must be read under conditions that imply its mask.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "loop/index_bounds.h"
#include "tcc/loop/loop.h"

namespace tcc::loop {

/// Knows the buffers of a kernel that one store alone fills, at indices that are the variables of its loops: `store v, %x.kept[%j_0, %j_1]` under a mask on
/// them. Of buffers that are written in several places it says nothing: the interpreter sees to those.
class Written {
 public:
  explicit Written(const Block& body);

  /// What is wrong with a load, within `bounds` and where the `conditions` around it are true; nullopt when nothing is seen.
  std::optional<std::string> fault(const Expr& load, const IndexBounds& bounds, const std::vector<ExprPtr>& conditions) const;

 private:
  struct Writer {
    std::vector<Index> indices;  ///< each a variable or a constant
    ExprPtr mask;
  };
  std::map<const Buffer*, Writer> writers_;
};

}  // namespace tcc::loop
