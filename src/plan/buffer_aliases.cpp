// Aliases form chains: a reshape of a piece of a concat lies in the concat's result.

#include "plan/buffer_aliases.h"

namespace tcc::plan {

BufferAliases::BufferAliases(const group::Groups& groups) {
  for (const group::Alias& alias : groups.aliases) aliases_[alias.value] = &alias;
  for (size_t i = 0; i < groups.units.size(); ++i) {
    for (const Value* output : groups.units[i].outputs) {
      const Storage storage = of(output);
      writers_[storage.base].push_back({static_cast<int>(i), output, storage.offset});
    }
  }
}

BufferAliases::Storage BufferAliases::of(const Value* value) const {
  Storage storage{value, 0};
  for (auto it = aliases_.find(value); it != aliases_.end(); it = aliases_.find(storage.base)) {
    storage.offset += it->second->byte_offset;
    storage.base = it->second->base;
  }
  return storage;
}

const group::Alias* BufferAliases::alias(const Value* value) const {
  const auto it = aliases_.find(value);
  return it == aliases_.end() ? nullptr : it->second;
}

const std::vector<BufferAliases::Writer>& BufferAliases::writers(const Value* base) const {
  static const std::vector<Writer> none;
  const auto it = writers_.find(base);
  return it == writers_.end() ? none : it->second;
}

}  // namespace tcc::plan
