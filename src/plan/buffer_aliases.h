// Where values lie: whose bytes they are part of, and which units write those.
#pragma once

#include <unordered_map>
#include <vector>

#include "tcc/group/group.h"

namespace tcc::plan {

class BufferAliases {
 public:
  explicit BufferAliases(const group::Groups& groups);

  /// What holds the bytes of a value, and where in it they begin.
  struct Storage {
    const Value* base;
    int64_t offset;
  };
  Storage of(const Value* value) const;
  const group::Alias* alias(const Value* value) const;

  /// A unit that stores a value, which begins at `offset` of the base asked for.
  struct Writer {
    int unit;
    const Value* value;
    int64_t offset;
  };
  /// Those that write a base: one, or those of the pieces of a concat; none for inputs and weights.
  const std::vector<Writer>& writers(const Value* base) const;

 private:
  std::unordered_map<const Value*, const group::Alias*> aliases_;
  std::unordered_map<const Value*, std::vector<Writer>> writers_;
};

}  // namespace tcc::plan
