// What was made before, by a key, for all threads.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace tcc {

/// Values stay where they are as long as the memo lives.
template <class Key, class Value> class Memo {
 public:
  /// The value of the key; `make` (-> a pointer to a value) makes it where there is none. Two threads may make it at the same time: the first one's is kept.
  template <class Make> std::shared_ptr<const Value> find_or_make(const Key& key, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = values_.find(key);
      if (found != values_.end()) return found->second;
    }
    std::shared_ptr<const Value> made = make();
    const std::lock_guard lock(mutex_);
    return values_.emplace(key, std::move(made)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Value>> values_;
};

}  // namespace tcc
