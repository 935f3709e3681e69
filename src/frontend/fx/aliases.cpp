#include "frontend/fx/aliases.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

std::shared_ptr<Alias> Alias::of_new_storage(Value* value) {
  auto alias = std::make_shared<Alias>();
  alias->storage_ = std::make_shared<Storage>();
  alias->storage_->value = value;
  alias->value_ = value;
  return alias;
}

std::shared_ptr<Alias> Alias::of_view(const Alias& base, ViewStep step, Value* value) {
  auto alias = std::make_shared<Alias>(base);
  alias->steps_.push_back(std::move(step));
  alias->value_ = value;
  alias->version_ = base.storage_->version;
  return alias;
}

Value* Alias::read(Builder& builder) {
  if (version_ == storage_->version) return value_;
  value_ = storage_->value;
  for (const ViewStep& step : steps_) value_ = step.derive(builder, value_);
  version_ = storage_->version;
  return value_;
}

void Alias::write(Builder& builder, Value* value) {
  std::vector<Value*> bases{storage_->value};  // what each step is applied to
  for (size_t i = 0; i + 1 < steps_.size(); ++i) bases.push_back(steps_[i].derive(builder, bases.back()));
  Value* written = value;
  for (size_t i = steps_.size(); i-- > 0;) {
    if (steps_[i].write_back == nullptr) throw RuleError{"unsupported-op", "a write in place through a view whose elements share memory"};
    written = steps_[i].write_back(builder, bases[i], written);
  }
  storage_->value = written;
  value_ = value;
  version_ = ++storage_->version;
}

}  // namespace tcc::fx
