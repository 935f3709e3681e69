// The names that the nodes of one graph see, and what each stands for.
//
//   %h = broken(%x)      has a fault: it is reported, `h` is faulty
//   %y = relu(%h)        reads a faulty name: passed over without a message, `y` is faulty
//   %z = other(%x)       independent: its faults are reported, too
//
// So one run over a model reports every independent fault once.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tcc {

/// `T` is what a name stands for: copied by whoever keeps it longer than the next change of the scope.
template <class T> class Scope {
 public:
  /// A subgraph sees the names `around` it; the body of a function sees its own only.
  explicit Scope(const Scope* around = nullptr) : around_(around) {}

  /// Null when nothing made so far has that name.
  const T* find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->around_) {
      if (const auto found = scope->named_.find(name); found != scope->named_.end()) return &found->second;
    }
    return nullptr;
  }
  /// Whether the name is that of a result of a node that was not imported.
  bool is_faulty(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->around_) {
      if (scope->faulty_.contains(name)) return true;
    }
    return false;
  }
  /// Whether the name was set here, not around.
  bool has_own(const std::string& name) const { return named_.contains(name); }

  void set(const std::string& name, T meaning) { named_.insert_or_assign(name, std::move(meaning)); }
  void set_faulty(const std::string& name) { faulty_.insert(name); }

 private:
  const Scope* around_;
  std::unordered_map<std::string, T> named_;
  std::unordered_set<std::string> faulty_;
};

}  // namespace tcc
