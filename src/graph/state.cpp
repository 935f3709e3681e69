// Lays out the state of a training library: sections one after the other, tensors at aligned offsets.

#include "tcc/graph/state.h"

#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

int64_t align_up(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

std::string_view name_of(StateRole role) {
  switch (role) {
    case StateRole::parameter: return "parameter";
    case StateRole::gradient: return "gradient";
    case StateRole::optimizer: return "optimizer";
    case StateRole::statistic: return "statistic";
  }
  internal_error("a role of a state tensor has no name");
}

const StateTensor* StateLayout::find(std::string_view name) const {
  check(by_name_.size() == tensors.size(), "a state tensor was added past append_section");
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors[static_cast<size_t>(found->second)];
}

void StateLayout::append(StateTensor tensor) {
  const bool is_new = by_name_.emplace(tensor.name, static_cast<int>(tensors.size())).second;
  check(is_new, "two state tensors have one name");
  tensors.push_back(std::move(tensor));
}

int StateLayout::append_section(std::string_view name, StateRole role, DType dtype, std::vector<StateTensor> members, int64_t alignment) {
  check(alignment % kStateAlignment == 0, "the alignment of a section is no multiple of the least one");
  int64_t& end = role == StateRole::gradient ? gradient_bytes : state_bytes;
  const int index = static_cast<int>(sections.size());
  const int64_t begin = end;
  for (StateTensor& tensor : members) {
    tensor.role = role;
    tensor.dtype = dtype;
    tensor.section = index;
    tensor.offset = end;
    end = begin + align_up(end - begin + tensor.size_bytes(), alignment);
    append(std::move(tensor));
  }
  sections.push_back({std::string(name), role, dtype, begin, end - begin});
  return index;
}

void StateLayout::append_view(std::string_view name, int section, int64_t first_byte, int64_t bytes) {
  const StateSection& of = sections[static_cast<size_t>(section)];
  if (bytes < 0) bytes = of.size_bytes - first_byte;
  check(first_byte >= 0 && bytes >= 0 && first_byte + bytes <= of.size_bytes, "a view reaches beyond its section");
  StateTensor view;
  view.name = std::string(name);
  view.role = of.role;
  view.dtype = of.dtype;
  view.shape = {bytes / storage_bytes(of.dtype, 1)};
  view.section = section;
  view.offset = of.offset + first_byte;
  view.view = true;
  append(std::move(view));
}

}  // namespace tcc
