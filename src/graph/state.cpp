// Lays out the state of a library: sections one after the other, tensors at aligned offsets.

#include "tcc/graph/state.h"

#include <utility>

#include "tcc/graph/graph.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/integer_math.h"

namespace tcc {

std::string_view name_of(StateRole role) {
  switch (role) {
    case StateRole::parameter: return "parameter";
    case StateRole::gradient: return "gradient";
    case StateRole::optimizer: return "optimizer";
    case StateRole::statistic: return "statistic";
    case StateRole::buffer: return "buffer";
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
  check(alignment % kStateAlignment == 0, "the alignment of a section is not a multiple of the least one");
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

StateLayout lay_out_state(const std::vector<const Graph*>& graphs) {
  std::map<std::string_view, const Weight*> seen;
  std::map<std::pair<bool, DType>, std::vector<StateTensor>> sections;
  for (const Graph* graph : graphs) {
    for (const auto& weight : graph->weights()) {
      if (!weight->is_state) continue;
      const auto [at, is_new] = seen.emplace(weight->name, weight.get());
      if (!is_new) {
        check(at->second->tensor.same_bytes(weight->tensor), "graphs that share a state begin with different ones");
        continue;
      }
      StateTensor tensor;
      tensor.name = weight->name;
      tensor.shape = weight->tensor.shape();
      tensor.initial = weight->tensor;
      tensor.trained = false;
      sections[{!weight->from_model, weight->tensor.dtype()}].push_back(std::move(tensor));
    }
  }
  StateLayout layout;
  for (auto& [key, tensors] : sections) {
    const auto [is_buffer, dtype] = key;
    layout.append_section((is_buffer ? "buffers." : "parameters.") + std::string(name_of(dtype)),
                          is_buffer ? StateRole::buffer : StateRole::parameter, dtype, std::move(tensors));
  }
  return layout;
}

}  // namespace tcc
