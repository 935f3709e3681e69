// Values that a pass has evaluated.

#include "passes/known_values.h"

#include <utility>

#include "tcc/graph/splat.h"

namespace tcc {

void KnownValues::set(const Value* value, Tensor tensor, bool absent) {
  if (static_cast<size_t>(value->id) >= entries_.size()) entries_.resize(static_cast<size_t>(graph_.num_values()));
  Entry& entry = entries_[static_cast<size_t>(value->id)];
  entry.tensor = std::move(tensor);
  entry.absent = absent;
}

const Tensor* KnownValues::find(const Value* value) const {
  if (value->kind == Value::Kind::weight) return value->weight->is_state ? nullptr : &value->weight->tensor;
  const Entry* entry = entry_of(value);
  return entry != nullptr && entry->tensor.defined() ? &entry->tensor : nullptr;
}

Value* KnownValues::present(Value* value) {
  if (!is_absent(value)) return value;
  Entry& entry = entries_[static_cast<size_t>(value->id)];
  if (entry.constant != nullptr) return entry.constant;
  if (const auto splat = splat_of(entry.tensor)) {
    Node* full = graph_.make_node(Op::full_, {}, full_attrs(value->type, *splat), {value->type},
                                  value->producer == nullptr ? Location() : value->producer->loc, "const");
    kept_.push_back(full);
    entry.constant = full->result();
    std::swap(entry.constant->name, value->name);  // the model's name stays with what the value holds
  } else {
    entry.constant = graph_.add_weight(value->name, entry.tensor, false);
  }
  return entry.constant;
}

}  // namespace tcc
