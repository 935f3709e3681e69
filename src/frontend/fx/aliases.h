// Views and writes in place, made functional.
//
//   %v = select(%x, 0, 1);  %r = add_(%v, 1);  %y = relu(%x)
//
// %x and %v are one storage; %v is reached from its whole value by a view step. A write to %v puts the new value back through the steps
// (here: into row 1 of %x) and makes that the storage's value; whoever reads %x or %v afterwards gets it derived from there.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tcc/rules/builder.h"

namespace tcc::fx {

struct ViewStep {
  std::function<Value*(Builder&, Value* base)> derive;
  /// `base` with the elements that the view shows replaced by those of `view`. Null: such a view can't be written through.
  std::function<Value*(Builder&, Value* base, Value* view)> write_back;
};

/// A tensor of the program: a storage and how it is seen.
class Alias {
 public:
  static std::shared_ptr<Alias> of_new_storage(Value* value);
  static std::shared_ptr<Alias> of_view(const Alias& base, ViewStep step, Value* value);

  /// The tensor's value now; derived anew when the storage was written meanwhile.
  Value* read(Builder& builder);
  /// RuleError "unsupported-op" when a step of the view can't be written through. The value's type must be the tensor's.
  void write(Builder& builder, Value* value);
  /// Whether the two share memory.
  bool shares_with(const Alias& other) const { return storage_ == other.storage_; }
  bool was_written() const { return storage_->version > 0; }

 private:
  struct Storage {
    Value* value = nullptr;
    int version = 0;  ///< how often it was written
  };
  std::shared_ptr<Storage> storage_;
  std::vector<ViewStep> steps_;
  Value* value_ = nullptr;
  int version_ = 0;  ///< of the storage when `value_` was derived
};

}  // namespace tcc::fx
